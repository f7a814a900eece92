"""Finds private-looking data in a text: patterns with checksums, in this process."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from . import pii_patterns
from .pii_patterns import is_card, is_iban, is_isbn

PrivateKind = Literal[
    "private key", "secret", "card number", "IBAN", "ID number", "e-mail", "phone",
    "date of birth", "IP address", "address",
]  # fmt: skip
KINDS: tuple[PrivateKind, ...] = get_args(PrivateKind)
"""All kinds, the most sensitive first."""


class PrivateSpan(NamedTuple):
    """`text[start:end]` looks like a `kind`."""

    start: int
    end: int
    kind: PrivateKind


LONGEST = 1_000_000
"""Characters that are examined."""
_PIECE, _OVERLAP = 16_384, 512
_PHONE_WORDS = ("phone", "mobile", "telefon", "tel", "fax", "whatsapp", "handy", "call me")
_IDENTITY_WORDS = (
    "passport", "reisepass", "personalausweis", "ausweis", "identity card", "id card", "id number",
    "national id", "driving licence", "driver's license", "driver license", "führerschein",
    "social security", "tax id", "steuer-id", "versicherungsnummer", "insurance number",
)  # fmt: skip
_BIRTH_WORDS = ("born", "date of birth", "birthday", "dob", "geboren", "geburtsdatum")
_SECRET_WORDS = ("password", "passwort", "passwd", "passphrase", "secret", "api key", "api_key")
_TOKEN_WORDS = ("apikey", "api-key", "access_key", "access key", "token", "pin code")
_PRIVATE_HOSTS = ("127.", "0.", "255.")
_PLACEHOLDERS = re.compile(
    r"x{3,}|\.{2,}|your|example|changeme|none|null|true|false|str|string|int|bytes|self|os\.|env",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d")


def scan(text: str) -> list[PrivateSpan]:
    """Return the findings in the order of the text; of overlapping ones, the more certain.

    Fit for a thread: a long text is taken in pieces, so that no match holds the GIL for long.
    """
    text = text[:LONGEST]
    taken: list[PrivateSpan] = []
    for finding in _private_keys(text):
        _take(finding, taken)
    for offset in range(0, len(text), _PIECE):
        piece = text[offset : offset + _PIECE + _OVERLAP]
        for rule in _RULES:
            for start, end in _spans(rule, piece):
                if start < _PIECE:
                    _take(PrivateSpan(start + offset, end + offset, rule.kind), taken)
    return taken


def _take(new: PrivateSpan, taken: list[PrivateSpan]) -> None:
    """Insert a finding, unless it overlaps an earlier one."""
    place = bisect(taken, new)
    behind = place < len(taken) and taken[place].start < new.end
    before = place > 0 and taken[place - 1].end > new.start
    if not behind and not before:
        taken.insert(place, new)


def summarize(findings: Iterable[PrivateSpan]) -> str:
    """Return `2 e-mails, IBAN`: each kind with its count, the most sensitive first; "" for none."""
    counts = Counter(finding.kind for finding in findings)
    return ", ".join(
        kind if counts[kind] == 1 else f"{counts[kind]} {_plural(kind)}"
        for kind in KINDS
        if counts[kind]
    )


def _plural(kind: PrivateKind) -> str:
    if kind == "date of birth":
        return "dates of birth"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _private_keys(text: str) -> Iterator[PrivateSpan]:
    if "PRIVATE KEY" not in text:
        return
    place = 0
    while (begin := pii_patterns.PRIVATE_KEY.search(text, place)) is not None:
        end = pii_patterns.END_OF_KEY.search(text, begin.end())
        place = end.end() if end else len(text)
        yield PrivateSpan(begin.start(), place, "private key")


def _spans(rule: _Rule, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a rule's findings."""
    if rule.needs and not any(piece in text for piece in rule.needs):
        return
    matches = _after(text, rule) if rule.words else rule.pattern.finditer(text)
    for match in matches:
        span = rule.span(match)
        if span is not None:
            yield span


def _after(text: str, rule: _Rule) -> Iterator[re.Match[str]]:
    """Yield the matches of a rule's pattern after each of its words, ignoring case."""
    lower = text.lower()
    # a few letters are longer in lower case, which would shift positions
    if len(lower) != len(text):
        lower = text
    for word in rule.words:
        place = lower.find(word)
        while place >= 0:
            end = place + len(word)
            match = rule.pattern.match(text, end)
            if match is not None and (place == 0 or not lower[place - 1].isalpha()):
                yield match
            place = lower.find(word, end)


# The private span of a match, None if it has none

Match = re.Match[str]
Span = tuple[int, int] | None


def _value(match: Match) -> Span:
    """Accept every match: the group, or all of a pattern without groups."""
    return match.span(1 if match.re.groups else 0)


def _identity(match: Match) -> Span:
    return match.span(1) if len(_DIGITS.findall(match[1])) >= 4 else None


def _named_phone(match: Match) -> Span:
    return match.span(1) if 7 <= len(_DIGITS.findall(match[1])) <= 15 else None


def _named_secret(match: Match) -> Span:
    # A sentence about passwords continues with a word: `password is needed`; `password: needed`
    # may be one.
    spoken = "is" in match[0][: match.start(1) - match.start()]
    return _token(match) if spoken else _assigned(match)


def _token(match: Match) -> Span:
    # A token has digits; a sentence about tokens continues with a word.
    return _assigned(match) if _DIGITS.search(match[1].rstrip(".")) else None


def _assigned(match: Match) -> Span:
    end = match.start(1) + len(match[1].rstrip("."))
    return None if _PLACEHOLDERS.match(match[1]) else (match.start(1), end)


def _iban(match: Match) -> Span:
    # The pattern may include following words: shorten it until the checksum is right.
    found = match[0]
    while " " in found and not is_iban(found.replace(" ", "")):
        found = found.rpartition(" ")[0]
    valid = is_iban(found.replace(" ", ""))
    return (match.start(), match.start() + len(found)) if valid else None


def _card(match: Match) -> Span:
    return match.span() if is_card(re.sub(r"[ -]", "", match[0])) else None


def _phone(match: Match) -> Span:
    digits = re.sub(r"\D", "", match[0])
    return match.span() if 8 <= len(digits) <= 15 and not is_isbn(digits) else None


def _ipv4(match: Match) -> Span:
    before = match.string[max(0, match.start() - 9) : match.start()].lower().rstrip(" :=v")
    valid = all(int(part) < 256 for part in match[0].split("."))
    hidden = match[0].startswith(_PRIVATE_HOSTS) or before.endswith("version")
    return match.span() if valid and not hidden else None


def _ipv6(match: Match) -> Span:
    text = match[0]
    # Times and ratios have colons as well; an address has a letter or a gap.
    if not (re.search("[A-Fa-f]", text) or "::" in text) or len(text) < 7:
        return None
    import ipaddress

    try:
        return None if ipaddress.IPv6Address(text).is_loopback else match.span()
    except ValueError:
        return None


class _Rule(NamedTuple):
    """How a kind is found: by `pattern`, anywhere or after one of `words`.

    Every match has one of the substrings `needs`, which are faster to search. `span` returns the
    private span of a match.
    """

    kind: PrivateKind
    pattern: re.Pattern[str]
    span: Callable[[Match], Span] = _value
    needs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


_RULES = (
    *(_Rule("secret", pattern, needs=(piece,)) for piece, pattern in pii_patterns.SECRETS),
    _Rule("IBAN", pii_patterns.IBAN, _iban),
    _Rule("card number", pii_patterns.CARD, _card),
    _Rule("e-mail", pii_patterns.EMAIL, needs=("@",)),
    _Rule("secret", pii_patterns.ASSIGNED, _named_secret, words=_SECRET_WORDS),
    _Rule("secret", pii_patterns.ASSIGNED, _token, words=_TOKEN_WORDS),
    _Rule("ID number", pii_patterns.SOCIAL_SECURITY),
    _Rule("ID number", pii_patterns.IDENTITY, _identity, words=_IDENTITY_WORDS),
    _Rule("phone", pii_patterns.PHONE, _phone),
    _Rule("phone", pii_patterns.NUMBER_AFTER_A_WORD, _named_phone, words=_PHONE_WORDS),
    _Rule("date of birth", pii_patterns.BIRTHDAY, words=_BIRTH_WORDS),
    _Rule("IP address", pii_patterns.IPV4, _ipv4),
    _Rule("IP address", pii_patterns.IPV6, _ipv6, needs=(":",)),
    *(_Rule("address", pattern, needs=pieces) for pieces, pattern in pii_patterns.HOMES),
)
"""The most certain first."""


class RedactedSpan(NamedTuple):
    """A part of the text as it would be sent; `finding` is its index in the list, if it is one."""

    text: str
    finding: int | None = None
    masked: bool = False


def masks(text: str, findings: Sequence[PrivateSpan]) -> list[str]:
    """Return `⟦e-mail⟧` for each finding, numbered if a text has several different ones."""
    values = [(finding.kind, text[finding.start : finding.end]) for finding in findings]
    numbers: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for kind, value in values:
        numbers[kind].setdefault(value, len(numbers[kind]) + 1)
    return [
        f"⟦{kind} {numbers[kind][value]}⟧" if len(numbers[kind]) > 1 else f"⟦{kind}⟧"
        for kind, value in values
    ]


def pieces(
    text: str, findings: Sequence[PrivateSpan], shown: Collection[int]
) -> list[RedactedSpan]:
    """Return the text in parts, with a mask for every finding that is not in `shown`."""
    names = masks(text, findings)
    parts: list[RedactedSpan] = []
    place = 0
    for index, finding in enumerate(findings):
        if finding.start > place:
            parts.append(RedactedSpan(text[place : finding.start]))
        masked = index not in shown
        words = names[index] if masked else text[finding.start : finding.end]
        parts.append(RedactedSpan(words, index, masked))
        place = finding.end
    if place < len(text):
        parts.append(RedactedSpan(text[place:]))
    return parts


def redact(text: str, findings: Sequence[PrivateSpan], shown: Collection[int] = ()) -> str:
    """Return `pieces` as one text."""
    return "".join(piece.text for piece in pieces(text, findings, shown))
