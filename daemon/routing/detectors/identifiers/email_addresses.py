"""Detects e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.data_files import word_lists
from ...text_analysis.text_index import lowered, vocabulary
from ..finding import FindingKind, SensitiveFinding

_TOP_LEVEL_DOMAINS = frozenset(word_lists()["top-level domains"])
# From the @ sign outwards, so that a long run of letters is scanned only once.
_LOCAL_PART = re.compile(r"[^\W_][\w.+'’&!#$%*/=?^`{|}~-]{0,63}\Z")
_DOMAIN = re.compile(
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,5}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59})(?![\w@])"
    r"|\[\d{1,3}(?:\.\d{1,3}){3}\]"
)


_LOGIN = re.compile(r"://[^\s/@]{0,64}:\Z")
_PICTURE = re.compile(r"@[1-4]x\.(?:png|jpe?g|gif|webp|svg)\Z")
_AT_WORDS = "at[ -]sign|at|@|ät|arroba|arobase|chiocciola|klammeraffe"
_AT = re.compile(
    rf"[ \t]{{0,2}}[\[({{<][ \t]?(?:{_AT_WORDS}|a)[ \t]?[\])}}>][ \t]{{0,2}}"
    rf"|[ \t]{{1,2}}(?:{_AT_WORDS})[ \t]{{1,2}}|[ \t]{{1,2}}@[ \t]?|[ \t]?@[ \t]{{1,2}}",
    re.IGNORECASE,
)
_DOT = (
    r"(?:[ \t]{0,2}[\[({<][ \t]?(?:dot|punkt|point|punto|ponto|\.)[ \t]?[\])}>][ \t]{0,2}"
    r"|[ \t]{1,2}(?:dot|punkt|point|punto|ponto)[ \t]{1,2})"
)
_NAME_BEFORE = re.compile(
    rf"[^\W_][\w+-]{{0,40}}(?:(?:\.|{_DOT})[\w+-]{{1,40}}){{0,3}}\Z", re.IGNORECASE
)
_HOST_BEHIND = re.compile(
    rf"[\w-]{{1,40}}(?:(?:\.|{_DOT})[\w-]{{1,40}}){{0,3}}(?:(?P<dot>{_DOT})"
    rf"|\s?\.\s?)(?P<top>{'|'.join(sorted(_TOP_LEVEL_DOMAINS))}|[a-z]{{2}})(?!\w)",
    re.IGNORECASE,
)
_HINTS = (
    "dot", "punkt", "punto", "ponto", "point", "[at", "(at", "{at", "<at", "[ at", "( at", "(@",
    "[@",
    " @", "@ ", "arroba", "arobase", "chiocciola", "(a)", "[a]", "ät",
)  # fmt: skip
_DOT_WORDS = frozenset({"dot", "punkt", "point", "punto", "ponto"})
_IN_BRACKETS = re.compile(
    rf"[\[({{<][ \t]?(?:{_AT_WORDS}|a|{'|'.join(sorted(_DOT_WORDS))}|\.)[ \t]?[\])}}>]"
)
_SIGNS = re.compile(rf"{_DOT}|\s", re.IGNORECASE)


def find_email_addresses(text: str) -> Iterator[SensitiveFinding]:
    """Yield addresses as in common practice of RFC 5322, and `name at host dot com`."""
    place = text.find("@")
    while place >= 0:
        finding = _around(text, place)
        if finding is not None:
            yield finding
        place = text.find("@", place + 1)
    lower = lowered(text)
    if any(map(lower.__contains__, _HINTS)) and _may_be_spelled(text, lower):
        yield from _spelled(text)


def _spelled(text: str) -> Iterator[SensitiveFinding]:
    """Yield addresses with words for the sign; requires an ending such as `.com` and brackets
    or a spelled dot.
    """
    for sign in _AT.finditer(text):
        host = _HOST_BEHIND.match(text, sign.end())
        if host is None:
            continue
        # In brackets the sign is unambiguous, so any country code is accepted.
        country = len(host["top"]) == 2 and sign[0].strip()[:1] in ("[", "(", "{", "<")
        if not country and host["top"].lower() not in _TOP_LEVEL_DOMAINS:
            continue
        name = _NAME_BEFORE.search(text[max(0, sign.start() - 100) : sign.start()])
        if name is None:
            continue
        # `meet me at example.com` is not an address.
        plain = sign[0].strip().isalpha() and host["dot"] is None
        if plain and not re.search(_DOT, name[0]):
            continue
        start = sign.start() - len(name[0])
        name_part, host_part = (_SIGNS.sub(_dot, piece) for piece in (name[0], host[0]))
        value = f"{name_part}@{host_part}".lower()
        yield SensitiveFinding(FindingKind.EMAIL, start, host.end(), value)


def _around(text: str, sign: int) -> SensitiveFinding | None:
    local = _LOCAL_PART.search(text[max(0, sign - 64) : sign])
    if local is None:
        return None
    domain = _DOMAIN.match(text, sign + 1)
    if domain is None:
        return None
    start = sign - len(local[0])
    value = text[start : domain.end()].lower()
    # `git@host:group/project` is a shared login, and `icon@2x.png` an image.
    shared = local[0].lower() == "git" and text[domain.end() : domain.end() + 1] in (":", "/")
    login = _LOGIN.search(text, max(0, start - 80), start)  # `://name:password@host`
    if login or shared or _PICTURE.search(value):
        return None
    return SensitiveFinding(FindingKind.EMAIL, start, domain.end(), value)


def _may_be_spelled(text: str, lower: str) -> bool:
    """Whether the text has the sign, its name in brackets, or a word for a dot."""
    if "@" in text or not _DOT_WORDS.isdisjoint(vocabulary(text).runs):
        return True
    return _IN_BRACKETS.search(lower) is not None


def _dot(match: re.Match[str]) -> str:
    return "." if match[0].strip() else ""
