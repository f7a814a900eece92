"""Detects values whose column or field says what they are: name, address, member number, …"""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from ..text_analysis.data_files import read_sections
from ..views.table_cells import table_cells
from .finding import FindingKind, SensitiveFinding

_IF_BESIDE, _BY_SHAPE = " if beside others", " by shape"
_BESIDE = 600
"""Characters within which another field of a person says whose name a plain `name` is."""

_FIELD = re.compile(
    r"(?:^|[{,(]|\\n)[ \t>*+-]{0,12}(?P<quote>[\"'`*]{0,2})"
    r"(?P<name>[^\W\d_][\w .#º°’'/\u0900-\u0dff-]{0,40}?)(?P=quote)[ \t]{0,8}[:：=][ \t*]{0,8}"
    r"(?:\"(?P<double>(?:[^\"\\\n]|\\.){1,200})\"|'(?P<single>[^'\n]{1,200})'"
    r"|(?<![=][ ])(?<!=)(?P<bare>[^\s\"'{\[<][^\n<]{0,160}))",  # after `=` it is code
    re.MULTILINE,
)
_NEXT_FIELD = re.compile(r"[,;|][ \t]{1,4}[^\W\d_][\w -]{0,30}[:=]")
_MAILBOX = re.compile(r"<[^<>\s@]{1,64}@[^<>\s@]{1,120}>")
_BEFORE_MAILBOX = re.compile(
    r"(?<![\w@])(?P<name>[^\W\d_][\w.'’-]{0,30}(?:,? [^\W\d_][\w.'’-]{0,30}){1,4})\"? ?$"
)
_CARD = re.compile(
    r"^(?P<name>FN|N|ADR|TEL|BDAY)(?:;[^:\n]{0,80})?:(?P<value>[^\n]{1,200})", re.MULTILINE
)
_CARD_KINDS = {
    "FN": FindingKind.PERSON,
    "N": FindingKind.PERSON,
    "ADR": FindingKind.STREET_ADDRESS,
    "TEL": FindingKind.PHONE,
    "BDAY": FindingKind.DATE_OF_BIRTH,
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBERED = re.compile(r"(?: line)? ?\d{0,3}$")  # as in `address line 2`
_SEPARATORS = re.compile(r"[\W_]+")
_NO_NAME = re.compile(r"[\d{}\[\]()<>=/\\_@:;|#$%^*+\"`!?]")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_CODE = re.compile(r"[a-z]\.[a-z]|[a-z]{4}\.$|[a-z][A-Z]{2}")
_DATE = re.compile(r"\d{1,4}\D{1,14}\d{1,4}|\d{4}|\d{6}|\d{8}")
_NUMBER = re.compile(r"[\w./ -]{3,30}")
_PHONE = re.compile(r"[+\d][\d ()./-]{5,24}")


class _Field(NamedTuple):
    """A name with the span of its value."""

    name: str
    start: int
    end: int


class _Meaning(NamedTuple):
    """What the values of a field are; None for other facts about a person."""

    kind: FindingKind | None
    is_certain: bool


def find_named_fields(text: str) -> Iterator[SensitiveFinding]:
    """Yield values in tables, SQL, JSON, YAML, forms, heads of mails and vCards."""
    found = [*_of_cards(text), *_of_mailboxes(text)]
    meant: list[tuple[_Field, _Meaning]] = []
    fields = _cells(text) + list(_pairs(text))
    for field in sorted(set(fields), key=lambda one: one.start):
        meaning = _meaning(field.name)
        if meaning is not None and _is_plausible(text[field.start : field.end], meaning):
            meant.append((field, meaning))
    plain = _Meaning(FindingKind.PERSON, False)
    others = [field.start for field, meaning in meant if meaning != plain]  # in order
    for field, meaning in meant:
        following = bisect_left(others, field.start - _BESIDE)
        beside = following < len(others) and others[following] <= field.start + _BESIDE
        if meaning.kind is not None and (beside or meaning != plain):
            found.append(_finding(meaning.kind, text, field.start, field.end))
    yield from found


def _cells(text: str) -> list[_Field]:
    def concerns(names: list[str]) -> bool:
        return any(map(_meaning, names))

    return [_Field(*cell) for cell in table_cells(text, concerns)]


def _pairs(text: str) -> Iterator[_Field]:
    for match in _FIELD.finditer(text):
        if _meaning(match["name"]) is None:
            continue
        group = next(name for name in ("double", "single", "bare") if match[name])
        start, end = match.span(group)
        if group == "bare":
            following = _NEXT_FIELD.search(text, start, end)
            end = following.start() if following is not None else end
            end = start + len(text[start:end].rstrip(" \t\r,;}*|)\"'"))
        if start < end:
            yield _Field(match["name"], start, end)


def _of_mailboxes(text: str) -> Iterator[SensitiveFinding]:
    """Yield the names before addresses such as `<ruth@example.net>`."""
    for mailbox in _MAILBOX.finditer(text) if "@" in text else ():
        match = _BEFORE_MAILBOX.search(text, max(0, mailbox.start() - 80), mailbox.start())
        if match is not None and _is_plausible(match["name"], _Meaning(FindingKind.PERSON, False)):
            yield _finding(FindingKind.PERSON, text, *match.span("name"))


def _of_cards(text: str) -> Iterator[SensitiveFinding]:
    if "BEGIN:VCARD" not in text:
        return
    for match in _CARD.finditer(text):
        kind, (start, end) = _CARD_KINDS[match["name"]], match.span("value")
        if match["name"] == "N":
            for piece in re.finditer(r"[^;\s][^;\n]*", text[start:end]):
                yield _finding(kind, text, start + piece.start(), start + piece.end())
            continue
        value = match["value"]
        start += len(value) - len(value.lstrip("; "))
        end -= len(value) - len(value.rstrip("; \r"))
        if start < end:
            yield _finding(kind, text, start, end)


def _finding(kind: FindingKind, text: str, start: int, end: int) -> SensitiveFinding:
    return SensitiveFinding(kind, start, end, " ".join(text[start:end].split()).casefold())


@functools.lru_cache(maxsize=2048)
def _meaning(name: str) -> _Meaning | None:
    """Return what the field of this name holds, None if that is nothing of a person."""
    words = _folded(_CAMEL.sub(" ", name))
    words = _NUMBERED.sub("", words)
    known = _meanings()
    found = known.get(words)
    first, _, rest = words.partition(" ")
    if first in _list("of persons") and rest in known:
        return _Meaning(known[rest].kind, True)
    return found


@functools.cache
def _meanings() -> dict[str, _Meaning]:
    known: dict[str, _Meaning] = {}
    for heading, lines in read_sections("field_names.txt").items():
        if heading in ("of persons", "placeholders"):
            continue
        plain = heading.removesuffix(_IF_BESIDE).removesuffix(_BY_SHAPE)
        kind = None if heading == "beside persons" else FindingKind(plain)
        for word in ", ".join(lines).split(", "):
            known.setdefault(_folded(word), _Meaning(kind, plain == heading))
    return known


@functools.cache
def _list(heading: str) -> frozenset[str]:
    return frozenset(map(_folded, ", ".join(read_sections("field_names.txt")[heading]).split(", ")))


def _folded(words: str) -> str:
    """Return the words in lower case, with single blanks, without marks and signs."""
    plain = unicodedata.normalize("NFKD", words.lower()).replace("ı", "i").replace("ł", "l")
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return _SEPARATORS.sub(" ", plain).strip()


def _is_plausible(value: str, meaning: _Meaning) -> bool:
    """Whether the value can be what its field says, and is no placeholder or type."""
    if not value.strip() or _folded(value) in _list("placeholders"):
        return False
    letters = [letter for letter in value if letter.isalpha()]
    digits = sum(map(str.isdigit, value))
    uncased = any(letter.lower() == letter.upper() for letter in letters)
    match meaning.kind:
        case FindingKind.PERSON:
            return _is_name(value, uncased) and (
                meaning.is_certain or uncased or value[0].isupper()
            )
        case FindingKind.STREET_ADDRESS:
            if "://" in value or "@" in value or value.startswith(("0x", "/", "~", "$", "<")):
                return False
            if meaning.is_certain:
                return len(letters) >= 3 or (uncased and len(letters) > 1)
            apart = " " in value.strip() or uncased
            return bool(digits) and apart and len(letters) >= (2 if uncased else 3)
        case FindingKind.EMAIL:
            return "@" in value.strip("@")
        case FindingKind.PHONE:
            return digits >= 6 and _PHONE.fullmatch(value) is not None
        case FindingKind.DATE_OF_BIRTH:
            return len(value) <= 30 and _DATE.search(value) is not None
        case FindingKind.ACCOUNT_NUMBER | FindingKind.HEALTH_ID:
            return digits >= 3 and _NUMBER.fullmatch(value) is not None
        case _:
            return True


def _is_name(value: str, uncased: bool) -> bool:
    if (
        _NO_NAME.search(value)
        or _CODE.search(value)
        or (not uncased and not _LETTERS.search(value))
    ):
        return False
    return len(value) <= 60 and 0 < len(value.split()) <= 6 and not (uncased and len(value) < 2)
