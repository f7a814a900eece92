"""Detects passwords, PINs and codes of doors in sentences, by names for them in many languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from ...text_analysis.data_files import word_lists
from ...text_analysis.generated_strings import is_a_standard, looks_generated
from ...text_analysis.text_index import digit_runs, lowered
from ..context_words import Phrases
from ..finding import FindingKind, SensitiveFinding
from ..public_examples import is_placeholder

_PASSWORDS, _SHORT_PASSWORDS = Phrases("passwords"), Phrases("short passwords", whole=True)
_KEYS = Phrases("keys")
_PINS, _CODES = Phrases("pins", whole=True), Phrases("codes")
_OPENERS = Phrases("openers", whole=True)
_LOGINS = Phrases("logins", whole=True)
_LINKS = frozenset(word_lists()["links"])
_NO_SEED_WORDS = frozenset(word_lists()["not in seed phrases"])
_NEAR, _BEFORE, _MOST_WORDS, _FEW_WORDS = 80, 60, 7, 4
# Scripts that are written without spaces: a value in Latin letters ends where they go on.
_NO_SPACES = "\u0e00-\u0e7f\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3，。；：！？（）"
_TOKEN = re.compile(
    r"[\"'`“„«](?P<quoted>[^\s\"'`“”„«»][^\"'`“”„«»\n]{2,63})[\"'`“”»]|[\"'`“„«]?(?:\*\*)?"
    rf"(?P<value>[^\s\"`“”„«»<>{{}}|\\,;()\[\]…{_NO_SPACES}]{{1,128}})"
)
_DIGIT = re.compile(r"[0-9]")
_DIGITS = re.compile(r"\d{4,20}\Z|\d{3,6}(?:-\d{3,6}){1,3}\Z")
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_ENDING = re.compile(r"(?:(?![\u0e00-\uffff])[^\W\d_]){0,8}")
_WORD = re.compile(r"[^\W\d_]+(?:['’]s)?")
_SENTENCE_END = re.compile(r"[.!](?=\s+[A-ZÀ-ÞА-Я])|\n")
# A name in code, such as `self.password` or `password_field(`, is followed by values of others.
_CODE_BEFORE = re.compile(
    r"[A-Za-z0-9+/]{12}\Z|\d\Z|[.$_@%{<(\[/&*#]\Z|->\Z|::\Z|(?<!\w)--?[\w-]*\Z"
)
_CODE_BEHIND = re.compile(
    r"[A-Za-z0-9_-]*(?:[(\[{<>._/|*]|['\"`\]]{0,2}\s?(?:[=)\]}]|[!<>]=)|['\"`]\s?:|\s?=)"
)
_WORDS_AS = (
    "as|is|was|which is|ist|war|als|est|était|comme|es|era|como|è|come|é|jest|to|jako|är|var|som"
    "|er|olarak|это|как|c['’]est|\\(|="
)
_AS = re.compile(
    r"(?P<value>[^\s\"'`<>{}|\\,;()\[\]]{6,64})[\"'`]?"
    rf"(?:,|[^\S\n](?:[a-z]{{1,12}}[^\S\n]){{0,2}}(?:{_WORDS_AS}))"
    r"[^\S\n]?(?:[\w’'-]{1,16}[^\S\n]){0,4}\Z",
    re.IGNORECASE,
)
# `14-32-07`, `A4589`, `2580`, `45B12`, `38к4417`, `1379#`.
_CODE_VALUE = re.compile(
    r"(?<![0-9A-Za-zА-я.,$€£+/-])(?:\d{1,3}(?:-\d{1,3}){2,5}|[A-ZА-Я]?\d{4,8}"
    r"|\d{2,5}(?:[A-ZА-Я]\d{0,4}|[a-zа-я]\d{2,4}))(?P<sign>[#*])?(?![0-9A-Za-zÀ-я%€$_]|[.,:/-]\d)"
)
_PAIR = re.compile(
    r"(?<![\w.@+-])[\w.@+-]{2,40}(?=(?:[^\S\n]/[^\S\n]|,[^\S\n]|[^\S\n]?[:/](?!/)[^\S\n]?"
    r"|,?[^\S\n](?:and|und|et|y|e|i|och|en|と)(?:[^\S\n](?:then|dann|puis|luego|poi))?[^\S\n]"
    r"|[^\S\n](?:with|mit|avec|con|com|met|med)[^\S\n](?=[^\s.]+\.?(?:\s|\Z)))"  # no version
    r"(?P<value>[^\s\"'`<>{}|\\,;()\[\]/]{6,64})(?![\w/(]))"
)
_NO_SECOND = re.compile(r"-login\Z|[a-z]V\d\Z")  # `imap-login, pop3-login`, `client: ClientV2`
_INITIALS = re.compile(
    r"(?i:\bu(?:ser)?[:=]\s?\S{1,60}\s{1,3}p(?:w|ass)?[:=]\s?)(?P<value>\S{4,64})"
)
_WORD_ROW = re.compile(
    r"(?:[^\S\n][\w'-]{1,16}){0,5}[^\S\n]?"
    r"(?:[:=]|(?<=phrase)[^\S\n](?:is|lautet|ist|est|es)(?=[^\S\n]))[^\S\n]?"
    r"(?P<value>(?:[a-z]{3,12}[ -]){2,9}(?:[a-z]{3,12}|\d{1,4}))(?![\w ])"
)
_LOGIN_NAME = re.compile(
    r"(?<![\w./@-])(?:root|admin|administrator|sa)"
    r"(?::|/(?=\w+[!$#%&*?])|[^\S\n]/[^\S\n])(?P<value>[A-Za-z][^\s\"'`<>(){}\[\];,]{5,40})"
)
_SIGNS = frozenset("!#$%&*+=?@^~_")
# `KeePassXC2`, `xcb_new`, `Base64Encoder`, `test_login_2`.
_CLASS_NAME = re.compile(
    r"(?:[A-Z][a-z]+){2,}(?:[A-Z]+\d?)?\Z|\w*[A-Za-z]\w*_[A-Za-z]{3,}\Z"
    r"|(?:[A-Z][a-z]+){0,2}[A-Z]{1,6}[a-z]*\d{1,3}j?_?[A-Z][A-Za-z_]+\Z|[a-z]+\d*(?:_[a-z]+\d*)+\Z"
)
# Far from a name these are no passwords: `MONGODB-X509`, `sasl2-bin`.
_TERM = re.compile(
    r"(?=.*[A-Z]{5})[A-Z0-9]+(?:[_-][A-Z0-9]+)+\Z|[a-z]+\d-[a-z]{3,}\Z|\W{2,}\w+=|.*\s"
)
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z|(?:\w+_){2,}\w+\Z")
_IDENTIFIER = re.compile(
    r"(?:[A-Za-z]+[_-])*[A-Z]?[a-z]{2,}(?:[A-Z][a-z]{2,})*\Z|[A-Z]+(?:_[A-Z]+)+\Z|.*&\w+\Z"
)
# Paths, files, addresses, flags, measures, calls, web tokens, fields of objects and encodings.
_NAME = re.compile(
    r"/(?!\d+$)|\.[A-Za-z]\w{0,4}$|@\w[\w-]*\.\w|^@|^--|^[\d.,:-]+[A-Za-z%°]{0,4}$"
    r"|^\d+(?:-[a-z-]+|x\d+)$|\)$|^&?\w+=|^#[a-z-]+$|^0x|^eyJ|^(?:\w+\.){2,}[A-Za-z_]\w*$|(?i:utf)-?\d"
)
_AROUND, _OPENING, _CALLS = "*_.,:!?)", frozenset("{<[%"), frozenset("([{")


class _Link(Enum):
    """What stands between the name and a word: other words, nothing, or a word such as `is`."""

    NONE, BESIDE, SAID = range(3)


def _stems(name: str) -> re.Pattern[str]:
    """Return a pattern of words that begin with one of a list; long ones may be within a word, and
    so may those of scripts without case.
    """
    words = word_lists()[name]
    short = [re.escape(word) for word in words if len(word) < 6 and word.upper() != word]
    other = [re.escape(word) for word in words if len(word) >= 6 or word.upper() == word]
    return re.compile(rf"(?<![^\W\d_])(?:{'|'.join(short)})|{'|'.join(other)}")


_PLACES, _NO_CODES = _stems("places"), _stems("no codes")


def find_spoken_secrets(text: str) -> Iterator[SensitiveFinding]:
    """Yield values in the sentence of a name for a password, a PIN, a code or a login."""
    for words, short in ((_PASSWORDS, False), (_SHORT_PASSWORDS, True)):
        for start, end in words.spans(text):
            of_tests = short and (text[start:end] == "PASS" or text[end : end + 1] == "-")
            if not of_tests and not _is_code(text, start, end):
                yield from _behind(text, end, short)
                yield from _before(text, start)
    for start, end in _KEYS.spans(text):
        spaced = text[end : end + 1].isspace() and _DIGIT.search(text, end, end + _NEAR)
        if spaced and not _is_code(text, start, end):
            yield from (f for f in _behind(text, end, True) if looks_generated(f.value))
    if digit_runs(text):
        yield from _codes(text)
    for start, end in _LOGINS.spans(text):
        if _is_code(text, start, end):
            continue
        for match in _PAIR.finditer(text, end, _sentence(text, end)):
            value = match["value"].rstrip(_AROUND)
            secret = any(map(str.isdigit, value)) and not _NO_SECOND.search(value)
            if secret and _is_password(value, _Link.SAID, short=True):
                yield _found(match.start("value"), value)
    for match in _LOGIN_NAME.finditer(text):
        if _is_mixed(match["value"]):
            yield _found(match.start("value"), match["value"])
    for match in _INITIALS.finditer(text):
        yield _found(match.start("value"), match["value"])


def _is_code(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 12) : start]
    return (
        _CODE_BEFORE.search(before) is not None
        or _CODE_BEHIND.match(text, end, end + 40) is not None
    )


def _sentence(text: str, end: int) -> int:
    """Return where the sentence ends that goes on at this position, within a short distance."""
    stop = _SENTENCE_END.search(text, end, end + _NEAR)
    return stop.start() if stop else end + _NEAR


def _behind(text: str, end: int, short: bool) -> Iterator[SensitiveFinding]:
    """Yield the values that follow a name: directly or after a link, else only clear ones."""
    end = end + len(
        _ENDING.findall(text, end, end + 8)[0]
    )  # of an inflected name, such as `hasła` or `şifrem`
    row = None if short else _WORD_ROW.match(text, end)
    if row is not None and _NO_SEED_WORDS.isdisjoint(row["value"].split()):
        yield _found(row.start("value"), row["value"])
        return
    link, words = _Link.BESIDE, 0
    for match in _TOKEN.finditer(text, end, _sentence(text, end)):
        quoted = match["quoted"]
        if quoted is not None and short and (match[0][0] == "`" or " " in quoted):
            link = _Link.NONE
            continue
        value = quoted or match["value"].rstrip(_AROUND)
        behind = "" if quoted is not None else match["value"][len(value) :]
        if behind.startswith(("!", "?", "*")) and not behind.startswith("**"):
            value = match["value"][: len(value) + 1]
        if match[0][0] == "`" and text[match.start() - 1] == ":":
            link = _Link.NONE  # a role of reStructuredText
            continue
        if text[match.start() - 1] in _OPENING or text[match.end() : match.end() + 1] in _CALLS:
            link = _Link.NONE  # code, or a placeholder such as `<password>`
            continue
        is_named = quoted is not None and link is _Link.SAID and not (short or words)
        is_named = is_named and match[0][0] != "`" and not _is_talk(quoted or "")
        if is_named or _is_password(value, link, short):
            yield _found(match.start("value" if quoted is None else "quoted"), value)
            link = _Link.BESIDE
            continue
        word = value.lower()
        said = word in _LINKS or match[0][-1] in ":=-–—" or word.endswith(("'s", "’s"))
        link = _Link.SAID if said else _Link.NONE
        words += not said
        if words > _MOST_WORDS:
            return


def _before(text: str, start: int) -> Iterator[SensitiveFinding]:
    """Yield `Zitrone_55, the new admin password` and `hunter22 as the password`."""
    begin = max(0, start - _BEFORE)
    match = _AS.search(text[begin:start].rpartition("\n")[2])
    if match is not None and _is_mixed(match["value"]):
        value = match["value"]
        place = text.rindex(value, begin, start)
        yield _found(place, value)


def _codes(text: str) -> Iterator[SensitiveFinding]:
    """Yield PINs, and the codes of doors, safes and phones."""
    lower = lowered(text)
    for words in (_PINS, _CODES, _OPENERS):
        for start, end in words.spans(text):
            match = _CODE_VALUE.search(text, end, _sentence(text, end))
            if match is None or _is_code(text, start, end):
                continue
            gap = text[end : match.start()]
            if gap[-1:] in _OPENING or (words is _OPENERS and "," in gap):  # `MIT Press, 1984`
                continue
            between = _WORD.findall(lower, end, match.start())
            said = not _LINKS.isdisjoint(between[-2:]) or ":" in gap
            if between and not said and _YEAR.match(match[0]):
                continue
            most = _MOST_WORDS if said else _FEW_WORDS
            if len(between) > (0 if words is _OPENERS else most) or "?" in gap:
                continue
            begin = max(0, start - _BEFORE, lower.rfind("\n", 0, start) + 1)
            if _NO_CODES.search(lower, begin, match.end() + 12):
                continue
            stop = match.end() + 32 if words is _OPENERS else match.start()
            if words is _PINS or match["sign"] or _PLACES.search(lower, begin, stop):
                yield _found(match.start(), match[0])


def _is_talk(value: str) -> bool:
    """Whether a quotation is a sentence or a placeholder."""
    return (" " in value and not any(map(str.isdigit, value))) or is_placeholder(value)


def _is_password(value: str, link: _Link, short: bool) -> bool:
    if link is _Link.NONE:
        return _is_mixed(value) and value[0].isalpha() and not _TERM.match(value)
    if _DIGITS.match(value):
        least = 4 if link is _Link.SAID else 6
        return not short and least <= len(value) <= 20 and not _YEAR.match(value)
    digits, letters = sum(map(str.isdigit, value)), sum(map(str.isalpha, value))
    if len(value) < 6 or letters < 2 or _is_name(value) or is_placeholder(value):
        return False
    if link is _Link.BESIDE and _CLASS_NAME.match(value):
        return False
    signs = not _SIGNS.isdisjoint(value[1:-1])
    if short and _CONSTANT.match(value):
        return False
    made_up = looks_generated(value) or (signs and link is _Link.SAID)
    return digits > 0 or (made_up and not short and not _IDENTIFIER.match(value))


def _is_mixed(value: str) -> bool:
    """Whether letters and final digits, or signs among them, rule out a word."""
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdigit, value))
    if len(value) < 6 or letters < 3 or _is_name(value) or _CLASS_NAME.match(value):
        return False
    if not digits and _IDENTIFIER.match(value):
        return False
    inside = not _SIGNS.isdisjoint(value[:-1]) and not value.islower()
    ends = (digits >= 2 and value[-1].isdigit()) or (digits > 0 and value[-1] in _SIGNS)
    return ends or inside or (digits >= 3 and looks_generated(value))


def _is_name(value: str) -> bool:
    """Whether it names a standard, a file, a measure or an address."""
    return any(map(is_a_standard, value.split())) or _NAME.search(value) is not None


def _found(start: int, value: str) -> SensitiveFinding:
    return SensitiveFinding(FindingKind.PASSWORD, start, start + len(value), value)
