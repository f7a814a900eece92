"""Detectors, their findings, and the sensitivity of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Sensitivity(StrEnum):
    """The classes of the policy, strictest first."""

    NEVER = "never"
    UNINSPECTABLE = "uninspectable"
    ASK = "ask"
    REDACT = "redact"
    MASK = "mask"
    ALLOW = "allow"


class FindingKind(StrEnum):
    """Kinds of findings; the policy maps each to a `Sensitivity`.

    Of a finding within another one, the scanner keeps the earlier kind.
    """

    API_KEY = "api_key"
    TOKEN = "token"  # noqa: S105 - a name
    JWT = "jwt"
    COOKIE = "cookie"
    PASSWORD = "password"  # noqa: S105 - a name
    PRIVATE_KEY = "private_key"
    CONNECTION_STRING = "connection_string"
    WALLET = "wallet"
    CARD = "card"
    IBAN = "iban"
    BANK_ACCOUNT = "bank_account"
    ACCOUNT_NUMBER = "account_number"
    NATIONAL_ID = "national_id"
    TAX_ID = "tax_id"
    PASSPORT = "passport"
    DRIVING_LICENCE = "driving_licence"
    HEALTH_ID = "health_id"
    VEHICLE = "vehicle"
    EMAIL = "email"
    PHONE = "phone"
    DATE_OF_BIRTH = "date_of_birth"
    IP_ADDRESS = "ip_address"
    MAC_ADDRESS = "mac_address"
    INTERNAL_HOST = "internal_host"
    FILE_PATH = "file_path"
    SECRET_PATH = "secret_path"  # noqa: S105 - a name
    PERSON = "person"
    STREET_ADDRESS = "street_address"
    ORGANISATION = "organisation"
    HEALTH = "health"
    MONEY = "money"
    LAW = "law"
    FAMILY = "family"
    WORK = "work"
    IMMIGRATION = "immigration"
    SEXUALITY = "sexuality"
    RELIGION = "religion"
    CONFIDENTIAL = "confidential"
    PERSONAL = "personal"
    OWN_WORD = "own_word"
    OWN_FOLDER = "own_folder"
    MASKED = "masked"
    MARKED_PRIVATE = "marked_private"
    UNINSPECTABLE = "uninspectable"


PERSONAL_TOPICS = frozenset(
    {
        FindingKind.HEALTH,
        FindingKind.MONEY,
        FindingKind.LAW,
        FindingKind.FAMILY,
        FindingKind.WORK,
        FindingKind.IMMIGRATION,
        FindingKind.SEXUALITY,
        FindingKind.RELIGION,
    }
)
"""Kinds of a passage about a person's life."""


class TextPart(msgspec.Struct, frozen=True):
    """One text of a request, and its location, such as `messages[2].content`.

    Only detectors of structured values read what is no `prose`: what a program or a model wrote.
    """

    where: str
    text: str
    prose: bool = True


class SensitiveFinding(msgspec.Struct, frozen=True):
    """A finding in the part with the number `part`, from character `start` up to `end`.

    `value` is the normalised text: two findings of equal kind and value are the same thing. It is
    never stored or logged. `detector` names its detector, for explanations; the scanner sets it.
    """

    kind: FindingKind
    start: int
    end: int
    value: str
    certainty: float = 1.0
    detector: str = ""
    part: int = 0


def plain_finding(
    kind: FindingKind, match: re.Match[str], group: str | int = "value"
) -> SensitiveFinding:
    """Return a group of a match as a finding; its value has only letters and digits, upper-case."""
    value = "".join(filter(str.isalnum, match[group])).upper()
    return SensitiveFinding(kind, *match.span(group), value)


class Detector(NamedTuple):
    """Finds one family of sensitive content; `name` is for explanations and errors.

    `find` returns findings with offsets into the text, in time proportional to its length. One for
    `prose` interprets sentences, and gets only texts that contain some, not every view of a number.
    """

    name: str
    find: Callable[[str], Iterable[SensitiveFinding]]
    prose: bool = False
