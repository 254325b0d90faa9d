"""A partner's check of webhooks with the official Standard Webhooks library of Python.

Reads a JSON list of {"secret", "headers", "body"} from standard input and prints a list
with null for each that the library accepts and with its complaint for each other.
"""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def complaint(webhook: dict) -> str | None:
    try:
        Webhook(webhook["secret"]).verify(webhook["body"], webhook["headers"])
    except WebhookVerificationError as error:
        return str(error)
    return None


print(json.dumps([complaint(webhook) for webhook in json.load(sys.stdin)]))
