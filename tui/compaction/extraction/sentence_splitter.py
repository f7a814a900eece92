"""Splits messages into sentences, and finds exact strings that a summary must keep."""

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
    r"|before i forget|and one more thing|one last thing"
    r"|for the record|just so you know|by the by|anyway|besides|ach|übrigens"
    r"|por cierto|au fait)\b[,:;!…–-]*"
    # These have a meaning unless set apart: “no dishwasher” is not “no, a dishwasher”.
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
_UNIT = (
    r"[kcmµn]?m[²³]?|[kmµ]?g|[mc]?l|t|h|min|s|ms|[kKMGT]i?B|[kM]?W|[kM]?Wh|[kM]?V|m?A|[kMG]?Hz"
    r"|EUR|USD|GBP|CHF|am|pm|ft|lb|oz|mph|px|pt|fps|x"
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
            r"\b[^\W\d_]{2,}(?:[-_]\w+)*[-_]\w*\d\w*",  # codes: letters, then digits
            rf"(?<![\w.])[+-]?\d+(?:[.,:' ]\d+)*(?:\s?(?:%|°C?|(?:{_UNIT})\b))?",  # numbers
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
        " Here There"
        " Please Also And But Or So Then Now Not No Yes Never Always Actually Sorry Correction Let"
        " Let's Thanks Thank One Just For From At In On By To Oh Ok Okay Hi Hello Hey Ah Well"
        " Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    )
)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences in order, unchanged."""
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


def is_lead(sentence: str) -> bool:
    """Return whether it is only an introduction: “Oh, and one more thing.”"""
    return not _LEAD.sub("", f"{sentence.rstrip('.!: ')}, ").strip()


def without_lead(sentence: str) -> str:
    """Return the sentence without introductory words."""
    rest = _LEAD.sub("", sentence)
    return rest[:1].upper() + rest[1:] if rest != sentence and len(rest) > 8 else sentence


def exact_strings(sentence: str) -> list[str]:
    """Return codes, addresses, dates, numbers with units, and quoted words."""
    return [match[0].strip() for match in _EXACT.finditer(sentence)]


def names(sentence: str) -> list[str]:
    """Return runs of capitalised words, except a common word at the beginning."""
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
    """Return the words in lower case, without possessive endings."""
    found = (match[0].casefold().replace("’", "'") for match in _WORD.finditer(text))
    return [word.removesuffix("'s") for word in found]


def kind_of(key: str) -> str:
    """Return the kind of an exact string or a name; two values of one subject have the same
    kind.
    """
    if "://" in key or "@" in key:
        return "address"
    if re.fullmatch(r"\d{1,2}:\d{2}", key):
        return "time"
    if re.search(rf"\b{_MONTH}\b", key) or re.fullmatch(_DAY, key):
        return "date"
    if re.fullmatch(r"1[5-9]\d\d|20\d\d", key):
        return "year"
    if re.search(r"\d", key):
        return "code" if re.search(r"\d[^\W\d]|[^\W\d_]{2,}[-_/]?\d", key) else "number"
    return "number" if re.fullmatch(_COUNT, key) else "name"


def stem(word: str) -> str:
    """Return the word without English plural and tense endings."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending)
            break
    return word.removesuffix("e") if len(word) > 3 else word


def stems(text: str) -> frozenset[str]:
    """Return the stems of all words."""
    return frozenset(stem(word) for word in words(text))


def subject_stems(text: str) -> frozenset[str]:
    """Return the stems of words that may identify a subject."""
    return stems(text) - COMMON_WORDS - MEASURES


COMMON_WORDS = stems(
    "the a an and or of to in on at for with is are was were be it its this that my our your we"
    " i you he she they as by from not but so if then no yes do does did have has had will"
    " would can could should may just about into over than very too also there here what which"
    " who actually correction sorry now instead again mind want while need make some any more"
    " think know get got go going take took taking us me them his her their must until till since"
    " been where when"
    " up down out off away back through around new other same next last first say says said tell"
    " tells told ask really well much many little lot bit thing things something anything everyone"
    " it's i'm i've i'd we'll we're we've i'll that's they'll it'll there's don't doesn't didn't"
    " can't won't isn't aren't wasn't haven't hasn't today please still yet only"
)
"""Words that do not identify a subject."""
MEASURES = stems(
    "euro euros dollar dollars pound pounds francs yen cents metre metres meter meters centimetre"
    " centimetres millimetres kilometre kilometres kilometers mile miles inch inches foot feet"
    " litre litres liters kilo kilos kilogram gram grams milligrams ton tons degree degrees percent"
    " second seconds minute minutes hour hours day days week weeks month months year years square"
    " cubic tokens bytes megabytes gigabytes watts volts times pieces o'clock"
)
"""Units: two amounts in the same currency need not be related."""
