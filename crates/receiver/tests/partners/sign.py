"""Signs webhooks with the official Standard Webhooks library of Python.

Reads a JSON list of {"secret", "id", "timestamp", "body"} from standard input and prints the list
of their signatures. The library has no ed25519: for a seed, "whsk_", `cryptography` signs.
"""

import base64
import json
import sys
from datetime import datetime, timezone

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks.webhooks import Webhook


def sign(secret: str, id: str, timestamp: int, body: str) -> str:
    if secret.startswith("whsk_"):
        key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret.removeprefix("whsk_")))
        signature = key.sign(f"{id}.{timestamp}.{body}".encode())
        return f"v1a,{base64.b64encode(signature).decode()}"
    return Webhook(secret).sign(id, datetime.fromtimestamp(timestamp, tz=timezone.utc), body)


print(json.dumps([sign(**webhook) for webhook in json.load(sys.stdin)]))
