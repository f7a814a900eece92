"""`Finding`: a stretch of text that looks like something private."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal[
    "private key",
    "secret",
    "e-mail",
    "IBAN",
    "card number",
    "ID number",
    "phone",
    "date of birth",
    "IP address",
    "address",
]


class Finding(NamedTuple):
    """`text[start:end]` looks like a `kind`."""

    start: int
    end: int
    kind: Kind
