"""Sentences of a message, and the exact strings in them that a summary must not lose."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BREAK = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\n+")
_AFTER_ADDRESS = re.compile(r"(https?://\S{1,400}) +(?=[A-ZÀ-Þ])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|Nr|vs|approx|ca|e\.g|i\.e|z\.B|d\.h|bzw|usw|Str)|(?<![\w-])[A-Z])\.$"
)
_LEAD = re.compile(
    r"^(?:(?:(?:so\s+(?:that\s+)?you\s+know|oh|ah|hey|hm+|thanks|btw|by the way|one more thing"
    r"|before i forget|for the record|just so you know|by the by|anyway|besides|ach|übrigens"
    r"|por cierto|au fait)\b[,:;!…–-]*"
    # These mean something unless they stand apart: “no dishwasher” is not “no, a dishwasher”.
    r"|(?:ok(?:ay)?|right|well|so|and|but|also|yes|no|und|aber)[,:;!…–-]+)\s+)+",
    re.IGNORECASE,
)

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|Januar|Februar|März|Mai|Juni"
    r"|Juli|Oktober|Dezember)"
)
_DAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?"
_COUNT = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty"
    r"|fifty|sixty|ninety|hundred|thousand)"
)
_EXACT = re.compile(
    "|".join(
        (
            r"https?://[^\s<>\"'）)]+[^\s<>\"'）).,;:!?]",  # addresses
            r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
            r"`[^`\n]{1,80}`",
            r"[“\"«„][^“”\"«»„\n]{2,80}[”\"»“]",
            rf"\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}\b(?:,?\s+\d{{4}})?",  # dates
            rf"\b{_MONTH}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?",
            r"[$€£¥]\s?\d[\d.,' ]*\d|[$€£¥]\s?\d",
            r"\b(?=\w*\d)(?=\w*[^\W\d_])[\w-]*\w(?:[./:-]\w+)*",  # codes: digits among letters
            r"\b[A-Z0-9]{2,}(?:[-_/][A-Z0-9]+)+\b",
            r"\b\w+(?:_\w+)+\b|\b\w+(?:/\w+){2,}",
            rf"\b(?:{_DAY}|{_COUNT})\b",
            r"(?<![\w.])[+-]?\d+(?:[.,:' ]\d+)*(?:\s?(?:%|°C?|[a-zA-Zµ²³]{1,3}\b))?",  # numbers
        )
    )
)
_NAME = re.compile(
    r"\b[A-ZÀ-ÖØ-Þ][\wÀ-ÿ'’-]+(?:\s+(?:(?:van|von|de|der|da|di|du|del|la|le|of)\s+)*"
    r"[A-ZÀ-ÖØ-Þ][\wÀ-ÿ'’-]*)*"
)
_SUBJECT = re.compile(
    r"[\w’'-]{3,}(?:,| (?:is|are|was|has|had|will|would|can|looks?|lives?|works?|comes?|takes?)\b)"
)
_COMMON = frozenset(
    re.findall(
        r"\S+",
        "I I'm I'd I've I'll It It's That This The They There We He She You My Our Your His Her If"
        " When What Which Who How Why Where Can Could Would Should Will Do Does Did Is Are Was Were"
        " Please Also And But Or So Then Now Not No Yes Never Always Actually Sorry Correction Let"
        " Let's Thanks Thank One Just For From At In On By To Oh Ok Okay Hi Hello Hey Ah Well"
        " Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    )
)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def sentences(text: str) -> Iterator[str]:
    """The sentences in order, as they were written."""
    text = _AFTER_ADDRESS.sub(r"\1\n", text)
    start = 0
    for match in _BREAK.finditer(text):
        end = match.start()
        if "\n" not in match[0] and _ABBREVIATION.search(text[max(start, end - 12) : end]):
            continue
        piece = text[start:end]
        start = match.end()
        closing = match[0].strip()
        if piece.strip():
            yield piece.strip() + closing
    if text[start:].strip():
        yield text[start:].strip()


def without_lead(sentence: str) -> str:
    """The sentence without the words that only lead up to it."""
    rest = _LEAD.sub("", sentence)
    return rest[:1].upper() + rest[1:] if rest != sentence and len(rest) > 8 else sentence


def exact_strings(sentence: str) -> list[str]:
    """Codes, addresses, dates, numbers with their units, and quoted words."""
    return [match[0].strip() for match in _EXACT.finditer(sentence)]


def names(sentence: str) -> list[str]:
    """Runs of capitalised words; a common word at the beginning is none."""
    found: list[str] = []
    for match in _NAME.finditer(sentence):
        name = match[0]
        first, _, rest = name.partition(" ")
        if first in _COMMON:
            name = rest
        elif match.start() == 0 and not rest and not _SUBJECT.match(sentence):
            continue  # any word is capitalised there
        if name and name not in _COMMON:
            found.append(name)
    return found


def words(text: str) -> list[str]:
    """The words in lower case, without the ending of a possessive."""
    found = (match[0].casefold().replace("’", "'") for match in _WORD.finditer(text))
    return [word.removesuffix("'s") for word in found]


def kind_of(key: str) -> str:
    """What sort of value an exact string or a name is; two values of one thing have the same."""
    if "://" in key or "@" in key:
        return "address"
    if re.fullmatch(r"\d{1,2}:\d{2}", key):
        return "time"
    if re.search(rf"\b{_MONTH}\b", key) or re.fullmatch(_DAY, key):
        return "date"
    if re.search(r"\d", key):
        return "code" if re.search(r"\d[^\W\d]|[^\W\d_]{2,}[-_/]?\d", key) else "number"
    return "number" if re.fullmatch(_COUNT, key) else "name"
