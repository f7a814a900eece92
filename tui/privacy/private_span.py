"""A span of text that looks private."""

from __future__ import annotations

from typing import Literal, NamedTuple

PrivateKind = Literal[
    "private key",
    "secret",
    "card number",
    "IBAN",
    "ID number",
    "e-mail",
    "phone",
    "date of birth",
    "IP address",
    "address",
]


class PrivateSpan(NamedTuple):
    """`text[start:end]` looks like a `kind`."""

    start: int
    end: int
    kind: PrivateKind
