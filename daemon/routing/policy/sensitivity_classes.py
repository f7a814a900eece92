"""Default classes of the kinds of findings, and their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..detectors.finding import PERSONAL_TOPICS, FindingKind, Sensitivity

IN_CONTEXT = "person_in_context"
"""Kind of a name next to a contact, or to health, money, law and similar topics."""

# Descriptions of the kinds, after "It holds".
_NEVER: dict[str, str] = {
    FindingKind.API_KEY: "an API key",
    FindingKind.TOKEN: "an access token",
    FindingKind.JWT: "a signed token",
    FindingKind.COOKIE: "a session cookie",
    FindingKind.PASSWORD: "a password",
    FindingKind.PRIVATE_KEY: "a private key",
    FindingKind.CONNECTION_STRING: "a connection string",
    FindingKind.WALLET: "the key or address of a wallet",
    FindingKind.CARD: "a payment card number",
    FindingKind.NATIONAL_ID: "a national ID number",
    FindingKind.TAX_ID: "a tax number",
    FindingKind.PASSPORT: "a passport number",
    FindingKind.DRIVING_LICENCE: "a driving licence number",
    FindingKind.HEALTH_ID: "a health insurance number",
    FindingKind.SECRET_PATH: "the path of a file with secrets",
    FindingKind.HEALTH: "details of a person's health",
    FindingKind.SEXUALITY: "details of a person's sexuality",
    FindingKind.RELIGION: "details of a person's religion",
    FindingKind.OWN_WORD: "a word from your own list",
    FindingKind.OWN_FOLDER: "a folder from your own list",
    FindingKind.MARKED_PRIVATE: "a request to keep it private",
}
_REDACT: dict[str, str] = {
    FindingKind.IBAN: "an IBAN",
    FindingKind.BANK_ACCOUNT: "a bank account number",
    FindingKind.ACCOUNT_NUMBER: "an account, member or case number",
    FindingKind.VEHICLE: "a number plate",
    FindingKind.EMAIL: "an e-mail address",
    FindingKind.PHONE: "a phone number",
    FindingKind.DATE_OF_BIRTH: "a date of birth",
    FindingKind.STREET_ADDRESS: "a street address",
    FindingKind.MASKED: "a word that you masked",
}
_MASK: dict[str, str] = {
    FindingKind.IP_ADDRESS: "an IP address",
    FindingKind.MAC_ADDRESS: "a device's hardware address",
    FindingKind.INTERNAL_HOST: "an internal host's name",
    FindingKind.FILE_PATH: "a file path",
}
_ASK: dict[str, str] = {
    FindingKind.PERSON: "a person's name",
    FindingKind.ORGANISATION: "an organisation's name",
    FindingKind.MONEY: "details of a person's finances",
    FindingKind.LAW: "details of a legal matter",
    FindingKind.FAMILY: "details of a person's family life",
    FindingKind.WORK: "internal matters of work",
    FindingKind.IMMIGRATION: "details of a person's immigration",
    FindingKind.CONFIDENTIAL: "a note that it is confidential",
    FindingKind.PERSONAL: "something that reads as personal",
}
_UNINSPECTABLE: dict[str, str] = {FindingKind.UNINSPECTABLE: "something that could not be scanned"}
_IN_CONTEXT = {IN_CONTEXT: "a person's name beside personal facts"}

DEFAULT_CLASSES: Mapping[str, Sensitivity] = MappingProxyType(
    dict.fromkeys(_NEVER, Sensitivity.NEVER)
    | dict.fromkeys(_REDACT, Sensitivity.REDACT)
    | dict.fromkeys(_MASK, Sensitivity.MASK)
    | dict.fromkeys(_ASK, Sensitivity.ASK)
    | dict.fromkeys(_UNINSPECTABLE, Sensitivity.UNINSPECTABLE)
    | dict.fromkeys(_IN_CONTEXT, Sensitivity.REDACT)
)
"""The class of every kind, and of names in context."""

KIND_WORDS: Mapping[str, str] = MappingProxyType(
    _NEVER | _REDACT | _MASK | _ASK | _UNINSPECTABLE | _IN_CONTEXT
)
"""The description of each kind, after "It holds"."""

CONTEXT = PERSONAL_TOPICS - {FindingKind.WORK} | {
    FindingKind.EMAIL,
    FindingKind.PHONE,
    FindingKind.STREET_ADDRESS,
    FindingKind.DATE_OF_BIRTH,
    FindingKind.IBAN,
    FindingKind.BANK_ACCOUNT,
    FindingKind.ACCOUNT_NUMBER,
    FindingKind.CARD,
    FindingKind.NATIONAL_ID,
    FindingKind.TAX_ID,
    FindingKind.PASSPORT,
    FindingKind.HEALTH_ID,
}
"""Kinds that turn a name into one in context."""

TOPICS = PERSONAL_TOPICS | {
    FindingKind.CONFIDENTIAL,
    FindingKind.PERSONAL,
    FindingKind.MARKED_PRIVATE,
    FindingKind.UNINSPECTABLE,
}
"""Kinds that concern a text as a whole: no placeholder can replace them."""
