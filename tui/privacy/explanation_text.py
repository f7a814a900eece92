"""Words for what the routing policy found in a request."""

from __future__ import annotations

import re

from ingle.daemon.client.routing_types import Explanation, RedactedText

_MESSAGE = re.compile(r"messages\[(\d{1,9})\]\.content")

# What the daemon's names of kinds do not say well by themselves, after "Found:".
_KIND_WORDS = {
    "api_key": "API key",
    "jwt": "signed token",
    "card": "card number",
    "iban": "IBAN",
    "national_id": "national ID",
    "tax_id": "tax number",
    "health_id": "health insurance number",
    "email": "e-mail address",
    "phone": "phone number",
    "vehicle": "number plate",
    "ip_address": "IP address",
    "mac_address": "hardware address",
    "secret_path": "path of a secret file",
    "law": "legal matter",
    "work": "work papers",
    "confidential": "marked confidential",
    "personal": "personal matters",
    "own_word": "word from your list",
    "own_folder": "folder from your list",
    "uninspectable": "something unreadable",
}


def kinds_found(explanation: Explanation) -> str:
    """The kinds of sensitive data that were found, each once, separated by commas."""
    kinds = dict.fromkeys(found.kind for found in explanation.findings)
    return ", ".join(_KIND_WORDS.get(kind, kind.replace("_", " ")) for kind in kinds)


def part_name(part: RedactedText) -> str:
    """The name of a redacted part: `message 3`, or its path in the request's body."""
    message = _MESSAGE.fullmatch(part.where)
    return f"message {int(message[1]) + 1}" if message else part.where
