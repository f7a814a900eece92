"""Parses search queries into words, phrases and filters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .database.text_index import index_text, is_unspaced

_NAMES = "model|folder|before|after|is"
_PART = re.compile(rf'(?:(?P<name>(?i:{_NAMES})):)?(?:"(?P<quoted>[^"]*)"?|(?P<word>[^\s"]+))')
_BARE_NAME = re.compile(rf"(?i:{_NAMES}):\Z")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?\Z")
PREFIX_LETTERS = 3
"""Least letters of a word that matches as a prefix; for the last word two."""
_MAX_TERMS = 24


@dataclass(frozen=True, slots=True)
class Term:
    """A word or a quoted phrase; with `is_prefix`, its last word matches as a prefix."""

    text: str
    is_prefix: bool


@dataclass(slots=True)
class SearchQuery:
    """A parsed query; every text is valid: parts that are no filters are search terms.

    `before` and `after` are Unix seconds; `after` is the start of the named period.
    """

    terms: list[Term] = field(default_factory=list[Term])
    model: str | None = None
    folder: str | None = None
    before: float | None = None
    after: float | None = None
    pinned: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.terms or self.has_filters)

    @property
    def has_filters(self) -> bool:
        return bool(self.model or self.folder or self.before or self.after or self.pinned)

    def match(self) -> str:
        """Return the terms in the full-text index's query language, "" without any."""
        return " AND ".join(
            '"' + index_text(term.text).replace('"', '""') + '"' + ("*" if term.is_prefix else "")
            for term in self.terms
        )


def parse_query(text: str, now: datetime | None = None) -> SearchQuery:
    """Parse words, `"phrases"`, `model:`, `folder:`, `before:`, `after:` and `is:pinned`."""
    now = now or datetime.now().astimezone()
    query = SearchQuery()
    text = text.replace("\0", " ")
    last = len(text.rstrip()) if not text[-1:].isspace() else -1
    for part in _PART.finditer(text):
        if _BARE_NAME.match(part[0]):
            # The filter's value is about to be typed; do not search for its name.
            continue
        value = part["quoted"] if part["quoted"] is not None else part["word"]
        name = part["name"] and part["name"].lower()
        if name is not None and _set_filter(query, name, value, now):
            continue
        quoted = part["quoted"] is not None and name is None
        words = value if quoted else part[0].replace('"', " ")
        if any(character.isalnum() for character in words) and len(query.terms) < _MAX_TERMS:
            is_prefix = not quoted and _stands_for_more(words, part.end() == last)
            query.terms.append(Term(words, is_prefix))
    if len(query.terms) > 1 and last == len(text) and _is_begun(query.terms[-1]):
        # A last word of one letter matches too much; as a whole word it would hide all hits.
        query.terms.pop()
    return query


def parse_date(text: str, now: datetime) -> datetime | None:
    """Return the beginning of a day, month or year, None if the text names none."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text.lower() in ("today", "yesterday"):
        return day if text.lower() == "today" else day - timedelta(days=1)
    match = _DATE.match(text)
    if match is None:
        return None
    try:
        date = datetime(int(match[1]), int(match[2] or 1), int(match[3] or 1)).astimezone()
        date.timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return date


def _set_filter(query: SearchQuery, name: str, value: str, now: datetime) -> bool:
    """Apply a filter; return whether it was valid."""
    if not value:
        return True
    if name == "model":
        query.model = value
    elif name == "folder":
        query.folder = value
    elif name == "is":
        query.pinned = query.pinned or value.lower() == "pinned"
        return value.lower() == "pinned"
    else:
        date = parse_date(value, now)
        if date is None:
            return False
        if name == "before":
            query.before = date.timestamp()
        else:
            query.after = date.timestamp()
    return True


def _is_begun(term: Term) -> bool:
    return len(term.text) == 1 and not is_unspaced(term.text)


def _stands_for_more(word: str, is_last: bool) -> bool:
    end = re.search(r"[^\W_]+\Z", word)
    if end is None or is_unspaced(word[-1]):
        return False
    return len(end[0]) >= (2 if is_last else PREFIX_LETTERS)
