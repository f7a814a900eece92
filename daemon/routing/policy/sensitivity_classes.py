"""How much each kind of finding matters unless the owner says otherwise, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..detectors.finding import Kind, Sensitivity

IN_CONTEXT = "person_in_context"
"""The key of a name that stands beside a contact, or beside health, money, law and the like."""

_NEVER = (
    Kind.API_KEY,
    Kind.TOKEN,
    Kind.JWT,
    Kind.COOKIE,
    Kind.PASSWORD,
    Kind.PRIVATE_KEY,
    Kind.CONNECTION_STRING,
    Kind.WALLET,
    Kind.CARD,
    Kind.NATIONAL_ID,
    Kind.TAX_ID,
    Kind.PASSPORT,
    Kind.DRIVING_LICENCE,
    Kind.HEALTH_ID,
    Kind.SECRET_PATH,
    Kind.HEALTH,
    Kind.SEXUALITY,
    Kind.RELIGION,
    Kind.OWN_WORD,
    Kind.OWN_FOLDER,
    Kind.MARKED_PRIVATE,
)
_REDACT = (
    Kind.IBAN,
    Kind.BANK_ACCOUNT,
    Kind.VEHICLE,
    Kind.EMAIL,
    Kind.PHONE,
    Kind.DATE_OF_BIRTH,
    Kind.IP_ADDRESS,
    Kind.MAC_ADDRESS,
    Kind.INTERNAL_HOST,
    Kind.FILE_PATH,
    Kind.STREET_ADDRESS,
)
_ASK = (
    Kind.PERSON,
    Kind.ORGANISATION,
    Kind.MONEY,
    Kind.LAW,
    Kind.FAMILY,
    Kind.WORK,
    Kind.IMMIGRATION,
    Kind.CONFIDENTIAL,
    Kind.PERSONAL,
)

DEFAULT_CLASSES: Mapping[str, Sensitivity] = MappingProxyType(
    dict.fromkeys(_NEVER, Sensitivity.NEVER)
    | dict.fromkeys(_REDACT, Sensitivity.REDACT)
    | dict.fromkeys(_ASK, Sensitivity.ASK)
    | {
        Kind.PLACE: Sensitivity.ALLOW,
        Kind.UNINSPECTABLE: Sensitivity.UNINSPECTABLE,
        IN_CONTEXT: Sensitivity.REDACT,
    }
)
"""The class of every kind, and of names in context."""

CONTEXT = frozenset(
    {
        Kind.EMAIL,
        Kind.PHONE,
        Kind.STREET_ADDRESS,
        Kind.DATE_OF_BIRTH,
        Kind.IBAN,
        Kind.BANK_ACCOUNT,
        Kind.CARD,
        Kind.NATIONAL_ID,
        Kind.TAX_ID,
        Kind.PASSPORT,
        Kind.HEALTH_ID,
        Kind.HEALTH,
        Kind.MONEY,
        Kind.LAW,
        Kind.FAMILY,
        Kind.IMMIGRATION,
        Kind.SEXUALITY,
        Kind.RELIGION,
    }
)
"""What makes a name more than a name."""

TOPICS = frozenset(
    {
        Kind.HEALTH,
        Kind.MONEY,
        Kind.LAW,
        Kind.FAMILY,
        Kind.WORK,
        Kind.IMMIGRATION,
        Kind.SEXUALITY,
        Kind.RELIGION,
        Kind.CONFIDENTIAL,
        Kind.PERSONAL,
        Kind.MARKED_PRIVATE,
        Kind.UNINSPECTABLE,
    }
)
"""Kinds that are about a text as a whole: a placeholder cannot stand for them."""

KIND_WORDS: Mapping[str, str] = MappingProxyType(
    {
        Kind.API_KEY: "an API key",
        Kind.TOKEN: "an access token",
        Kind.JWT: "a signed token",
        Kind.COOKIE: "a session cookie",
        Kind.PASSWORD: "a password",
        Kind.PRIVATE_KEY: "a private key",
        Kind.CONNECTION_STRING: "a connection string",
        Kind.WALLET: "the key or address of a wallet",
        Kind.CARD: "a payment card number",
        Kind.IBAN: "an IBAN",
        Kind.BANK_ACCOUNT: "a bank account number",
        Kind.NATIONAL_ID: "a national ID number",
        Kind.TAX_ID: "a tax number",
        Kind.PASSPORT: "a passport number",
        Kind.DRIVING_LICENCE: "a driving licence number",
        Kind.HEALTH_ID: "a health insurance number",
        Kind.VEHICLE: "a number plate",
        Kind.EMAIL: "an e-mail address",
        Kind.PHONE: "a phone number",
        Kind.DATE_OF_BIRTH: "a date of birth",
        Kind.IP_ADDRESS: "an IP address",
        Kind.MAC_ADDRESS: "a device's hardware address",
        Kind.INTERNAL_HOST: "an internal host's name",
        Kind.FILE_PATH: "a file path",
        Kind.SECRET_PATH: "the path of a file with secrets",
        Kind.PERSON: "a person's name",
        Kind.STREET_ADDRESS: "a street address",
        Kind.PLACE: "a place name",
        Kind.ORGANISATION: "an organisation's name",
        Kind.HEALTH: "details of somebody's health",
        Kind.MONEY: "details of somebody's money",
        Kind.LAW: "details of a legal matter",
        Kind.FAMILY: "details of somebody's family life",
        Kind.WORK: "text from somebody's work",
        Kind.IMMIGRATION: "details of somebody's immigration",
        Kind.SEXUALITY: "details of somebody's sexuality",
        Kind.RELIGION: "details of somebody's religion",
        Kind.CONFIDENTIAL: "a note that it is confidential",
        Kind.PERSONAL: "something that reads as personal",
        Kind.OWN_WORD: "a word from your own list",
        Kind.OWN_FOLDER: "a folder from your own list",
        Kind.MARKED_PRIVATE: "a request to keep it private",
        Kind.UNINSPECTABLE: "something that could not be looked through",
        IN_CONTEXT: "a person's name beside personal facts",
    }
)
"""What explanations call each kind, after "It holds"."""
