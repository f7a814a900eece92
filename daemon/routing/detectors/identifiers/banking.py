"""Detects IBANs in any grouping, and cryptocurrency wallets and seed phrases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.checksums import has_iban_check_digits
from ...text_analysis.data_files import word_lists
from ...text_analysis.text_index import digit_runs, long_words
from ..context_words import ContextWords, Phrases
from ..finding import FindingKind, SensitiveFinding

# Lengths by country, from the IBAN registry (SWIFT, release 98).
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD FK", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH CR HR LI LV", 22: "BG BH DE GB GE IE ME RS VA", 23: "AE GI IL IQ TL OM SO",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA",
        30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
_SHORTEST_IBAN, _LONGEST_IBAN = 14, 34
_IBAN = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}(?:[ .-]?[0-9]){2}(?:[ .\-–]{0,2}[A-Za-z0-9]){10,36}+"
)
_IBAN_GAPS = frozenset(" .-")
_WALLETS = (
    ("0x", re.compile(r"0x[0-9a-fA-F]{40}(?![0-9a-zA-Z])")),
    ("bc1", re.compile(r"(?:bc|tb|ltc)1[02-9ac-hj-np-z]{25,87}(?![0-9a-zA-Z])")),
    ("ltc1", re.compile(r"ltc1[02-9ac-hj-np-z]{25,87}(?![0-9a-zA-Z])")),
    ("addr1", re.compile(r"addr1[02-9ac-hj-np-z]{50,110}(?![0-9a-zA-Z])")),
    ("xpr", re.compile(r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,112}")),
)
_BASE58 = re.compile(r"[1-9A-HJ-NP-Za-km-z]{25,95}+")
_WALLET_WORDS = ContextWords("wallets")
_SEED_WORDS = Phrases("seed phrases")
_WORD_ROW = re.compile(
    r"(?:[0-9]{1,2}[.):] ?)?[a-z]{3,8}(?:(?: {1,2}|, ?| ?\n ?)(?:[0-9]{1,2}[.):] ?)?"
    r"[a-z]{3,8}(?![a-z])){11,23}+"
)
_SEED_WORD = re.compile(r"[a-z]{3,8}")
_AROUND_SEEDS = " \t\r\n\"'`"
_SEED_LENGTHS = (12, 15, 18, 21, 24)
# None of them is in the word list of BIP 39, and few sentences of twelve words lack them all.
_NO_SEED_WORDS = frozenset(word_lists()["not in seed phrases"])


def find_ibans(text: str) -> Iterator[SensitiveFinding]:
    """Yield IBANs with valid check digits (ISO 13616)."""
    done = 0
    for start in _iban_starts(text):
        match = _IBAN.match(text, start) if start >= done else None
        if match is None:
            continue
        end = _iban_end(match[0])
        if end:
            value = _plain(match[0][:end])
            yield SensitiveFinding(FindingKind.IBAN, start, start + end, value)
            # Otherwise `to 200 EUR to DE89…` would match as one, and hide the real one inside.
            done = start + end


def _iban_starts(text: str) -> Iterator[int]:
    """Yield positions of two letters before each run of digits, with at most one character
    between.
    """
    for digit, _ in digit_runs(text):
        start = digit - (3 if text[digit - 1 : digit] in _IBAN_GAPS else 2)
        if start >= 0 and text[start : start + 2].isalpha():
            yield start


def find_wallets(text: str) -> Iterator[SensitiveFinding]:
    """Yield addresses and private keys of wallets, and seed phrases."""
    for piece, pattern in _WALLETS:
        if piece in text:
            for match in pattern.finditer(text):
                yield SensitiveFinding(FindingKind.WALLET, match.start(), match.end(), match[0])
    if any(end - start >= 25 for start, end in long_words(text)):
        yield from _base58(text)
    yield from _seeds(text)


def _base58(text: str) -> Iterator[SensitiveFinding]:
    for match in _BASE58.finditer(text):
        run = match[0]
        bitcoin = len(run) <= 35 and run[0] in "13LMD"
        other = (len(run) == 95 and run[0] in "48") or (len(run) in (51, 52) and run[0] in "5KL")
        other = other or (len(run) == 34 and run[0] in "Tr") or 43 <= len(run) <= 44
        if not (bitcoin or other) or run.isdigit() or not any(map(str.isdigit, run)):
            continue
        if text[max(0, match.start() - 1) : match.start()].isalnum():
            continue
        if text[match.end() : match.end() + 1].isalnum():
            continue
        if _WALLET_WORDS.near(text, match.start(), match.end()) or (bitcoin and _base58_sum(run)):
            yield SensitiveFinding(FindingKind.WALLET, match.start(), match.end(), run)


def _seeds(text: str) -> Iterator[SensitiveFinding]:
    """Yield seed phrases after words that announce them, near words for wallets, or as the whole
    text.
    """
    for end in _SEED_WORDS.ends(text):
        match = _WORD_ROW.search(text, end, end + 400)
        words = _SEED_WORD.findall(match[0]) if match is not None else []
        if match is not None and len(words) in _SEED_LENGTHS:
            yield SensitiveFinding(FindingKind.WALLET, *match.span(), " ".join(words))
    place = 0
    for line in text.splitlines(keepends=True):
        words = line.strip(_AROUND_SEEDS).split(" ")
        if len(words) in _SEED_LENGTHS and _is_seed(words):
            start, seed = place + line.index(words[0]), " ".join(words)
            alone = len(text.strip(_AROUND_SEEDS)) == len(seed)
            if alone or _WALLET_WORDS.near(text, start, start + len(seed)):
                yield SensitiveFinding(FindingKind.WALLET, start, start + len(seed), seed)
        place += len(line)


def _is_seed(words: list[str]) -> bool:
    usual = all(3 <= len(word) <= 8 and word.isalpha() and word.islower() for word in words)
    return usual and _NO_SEED_WORDS.isdisjoint(words)


def _iban_end(run: str) -> int:
    """Return the number of characters of the run that form an IBAN; words may follow it.

    A wrong length for the country is accepted if the check digits are valid: people omit digits,
    and countries join.
    """
    length = _IBAN_LENGTHS.get(run[:2].upper())
    seen, longest = 0, 0
    for place, letter in enumerate(run):
        seen += letter.isalnum()
        if not letter.isalnum() or run[place + 1 : place + 2].isalnum():
            continue
        if _SHORTEST_IBAN <= seen <= _LONGEST_IBAN:
            whole, part = seen == length, run[: place + 1]
            if (whole or part.isupper()) and has_iban_check_digits(_plain(part)):
                if whole:
                    return place + 1
                longest = place + 1
    return longest


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text)).upper()


def _base58_sum(run: str) -> bool:
    """Whether the last four bytes are the checksum of the others, twice SHA-256 (Base58Check)."""
    from hashlib import sha256

    number = 0
    for letter in run:
        number = number * 58 + "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(
            letter
        )
    data = number.to_bytes(40, "big")[-25:]
    return sha256(sha256(data[:21]).digest()).digest()[:4] == data[21:]
