"""Default classes of the kinds of findings, and their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..detectors.finding import FindingKind, Sensitivity

IN_CONTEXT = "person_in_context"
"""Kind of a name next to a contact, or to health, money, law and similar topics."""

_NEVER = (
    FindingKind.API_KEY,
    FindingKind.TOKEN,
    FindingKind.JWT,
    FindingKind.COOKIE,
    FindingKind.PASSWORD,
    FindingKind.PRIVATE_KEY,
    FindingKind.CONNECTION_STRING,
    FindingKind.WALLET,
    FindingKind.CARD,
    FindingKind.NATIONAL_ID,
    FindingKind.TAX_ID,
    FindingKind.PASSPORT,
    FindingKind.DRIVING_LICENCE,
    FindingKind.HEALTH_ID,
    FindingKind.SECRET_PATH,
    FindingKind.HEALTH,
    FindingKind.SEXUALITY,
    FindingKind.RELIGION,
    FindingKind.OWN_WORD,
    FindingKind.OWN_FOLDER,
    FindingKind.MARKED_PRIVATE,
)
_REDACT = (
    FindingKind.IBAN,
    FindingKind.BANK_ACCOUNT,
    FindingKind.VEHICLE,
    FindingKind.EMAIL,
    FindingKind.PHONE,
    FindingKind.DATE_OF_BIRTH,
    FindingKind.IP_ADDRESS,
    FindingKind.MAC_ADDRESS,
    FindingKind.INTERNAL_HOST,
    FindingKind.FILE_PATH,
    FindingKind.STREET_ADDRESS,
)
_ASK = (
    FindingKind.PERSON,
    FindingKind.ORGANISATION,
    FindingKind.MONEY,
    FindingKind.LAW,
    FindingKind.FAMILY,
    FindingKind.WORK,
    FindingKind.IMMIGRATION,
    FindingKind.CONFIDENTIAL,
    FindingKind.PERSONAL,
)

DEFAULT_CLASSES: Mapping[str, Sensitivity] = MappingProxyType(
    dict.fromkeys(_NEVER, Sensitivity.NEVER)
    | dict.fromkeys(_REDACT, Sensitivity.REDACT)
    | dict.fromkeys(_ASK, Sensitivity.ASK)
    | {
        FindingKind.PLACE: Sensitivity.ALLOW,
        FindingKind.UNINSPECTABLE: Sensitivity.UNINSPECTABLE,
        IN_CONTEXT: Sensitivity.REDACT,
    }
)
"""The class of every kind, and of names in context."""

CONTEXT = frozenset(
    {
        FindingKind.EMAIL,
        FindingKind.PHONE,
        FindingKind.STREET_ADDRESS,
        FindingKind.DATE_OF_BIRTH,
        FindingKind.IBAN,
        FindingKind.BANK_ACCOUNT,
        FindingKind.CARD,
        FindingKind.NATIONAL_ID,
        FindingKind.TAX_ID,
        FindingKind.PASSPORT,
        FindingKind.HEALTH_ID,
        FindingKind.HEALTH,
        FindingKind.MONEY,
        FindingKind.LAW,
        FindingKind.FAMILY,
        FindingKind.IMMIGRATION,
        FindingKind.SEXUALITY,
        FindingKind.RELIGION,
    }
)
"""Kinds that turn a name into one in context."""

TOPICS = frozenset(
    {
        FindingKind.HEALTH,
        FindingKind.MONEY,
        FindingKind.LAW,
        FindingKind.FAMILY,
        FindingKind.WORK,
        FindingKind.IMMIGRATION,
        FindingKind.SEXUALITY,
        FindingKind.RELIGION,
        FindingKind.CONFIDENTIAL,
        FindingKind.PERSONAL,
        FindingKind.MARKED_PRIVATE,
        FindingKind.UNINSPECTABLE,
    }
)
"""Kinds that concern a text as a whole: no placeholder can replace them."""

KIND_WORDS: Mapping[str, str] = MappingProxyType(
    {
        FindingKind.API_KEY: "an API key",
        FindingKind.TOKEN: "an access token",
        FindingKind.JWT: "a signed token",
        FindingKind.COOKIE: "a session cookie",
        FindingKind.PASSWORD: "a password",
        FindingKind.PRIVATE_KEY: "a private key",
        FindingKind.CONNECTION_STRING: "a connection string",
        FindingKind.WALLET: "the key or address of a wallet",
        FindingKind.CARD: "a payment card number",
        FindingKind.IBAN: "an IBAN",
        FindingKind.BANK_ACCOUNT: "a bank account number",
        FindingKind.NATIONAL_ID: "a national ID number",
        FindingKind.TAX_ID: "a tax number",
        FindingKind.PASSPORT: "a passport number",
        FindingKind.DRIVING_LICENCE: "a driving licence number",
        FindingKind.HEALTH_ID: "a health insurance number",
        FindingKind.VEHICLE: "a number plate",
        FindingKind.EMAIL: "an e-mail address",
        FindingKind.PHONE: "a phone number",
        FindingKind.DATE_OF_BIRTH: "a date of birth",
        FindingKind.IP_ADDRESS: "an IP address",
        FindingKind.MAC_ADDRESS: "a device's hardware address",
        FindingKind.INTERNAL_HOST: "an internal host's name",
        FindingKind.FILE_PATH: "a file path",
        FindingKind.SECRET_PATH: "the path of a file with secrets",
        FindingKind.PERSON: "a person's name",
        FindingKind.STREET_ADDRESS: "a street address",
        FindingKind.PLACE: "a place name",
        FindingKind.ORGANISATION: "an organisation's name",
        FindingKind.HEALTH: "details of a person's health",
        FindingKind.MONEY: "details of a person's finances",
        FindingKind.LAW: "details of a legal matter",
        FindingKind.FAMILY: "details of a person's family life",
        FindingKind.WORK: "text from a person's work",
        FindingKind.IMMIGRATION: "details of a person's immigration",
        FindingKind.SEXUALITY: "details of a person's sexuality",
        FindingKind.RELIGION: "details of a person's religion",
        FindingKind.CONFIDENTIAL: "a note that it is confidential",
        FindingKind.PERSONAL: "something that reads as personal",
        FindingKind.OWN_WORD: "a word from your own list",
        FindingKind.OWN_FOLDER: "a folder from your own list",
        FindingKind.MARKED_PRIVATE: "a request to keep it private",
        FindingKind.UNINSPECTABLE: "something that could not be scanned",
        IN_CONTEXT: "a person's name beside personal facts",
    }
)
"""The description of each kind, after "It holds"."""
