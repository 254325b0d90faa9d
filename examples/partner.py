"""A partner's endpoint for webhooks in Python, with the official library.

    pip install standardwebhooks cryptography
    WEBHOOKS_SECRET=whsec_... python partner.py

cryptography is only for keys that begin with whpk_, which the library does not know.
"""

import base64
import contextlib
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

# During a rotation there are two, with white space between them.
SECRETS = os.environ["WEBHOOKS_SECRET"].split()
LARGEST_BODY = 1024 * 1024
# In production a table, written in the same transaction as what the event changes.
seen = set()


def is_genuine(headers: dict[str, str], body: bytes) -> bool:
    for secret in SECRETS:
        try:
            if secret.startswith("whpk_"):
                verify_ed25519(secret, headers, body)
            else:
                Webhook(secret).verify(body, headers, json_parse=False)
            return True
        # The library raises ValueError for a signature that is cut.
        except (WebhookVerificationError, InvalidSignature, KeyError, ValueError):
            continue
    return False


def verify_ed25519(key: str, headers: dict[str, str], body: bytes) -> None:
    if abs(time.time() - int(headers["webhook-timestamp"])) > 300:
        raise InvalidSignature
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for entry in headers["webhook-signature"].split():
        version, _, signature = entry.partition(",")
        if version != "v1a":
            continue
        # During a rotation there are two, and either is enough.
        with contextlib.suppress(InvalidSignature, ValueError):
            public.verify(base64.b64decode(signature, validate=True), signed)
            return
    raise InvalidSignature


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds that a client may be silent

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        if not 0 <= length <= LARGEST_BODY:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(length)  # the bytes as they came, before any parser
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not is_genuine(headers, body):
            return self.answer(401)
        if headers["webhook-id"] not in seen:
            seen.add(headers["webhook-id"])
            print("received", json.loads(body)["type"], headers["webhook-id"], flush=True)
        self.answer(202)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Endpoint)
    print(f"listening on {server.server_address[0]}:{server.server_address[1]}", flush=True)
    server.serve_forever()
