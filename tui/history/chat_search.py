"""Full-text search over the messages of all chats, ranked by relevance and age."""

from __future__ import annotations

import json
import math
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ..chats.automatic_title import automatic_title
from ..chats.chat import ChatSettings
from ..text.terminal_safe_text import clean
from .database.chat_reads import decode_settings
from .database.row_reads import LATEST_SETTINGS, first_prompt
from .database.text_index import is_unspaced, whole_text
from .search_query import SearchQuery, Term

if TYPE_CHECKING:
    from sqlite3 import Connection


_LOOKED_AT = 200_000
_BEFORE = 0.3
"""The share of a snippet before the first hit."""


class _Folding(dict[int, str]):
    """Maps a character to lower case without diacritics; filled on demand."""

    def __missing__(self, code: int) -> str:
        base = unicodedata.normalize("NFKD", chr(code))[:1].lower()
        self[code] = folded = base if len(base) == 1 else chr(code)
        return folded


@dataclass(frozen=True, slots=True)
class Snippet:
    """One line of text, and the spans of its hits."""

    text: str
    hits: tuple[tuple[int, int], ...]


class SnippetMaker:
    """Finds the words of one query as the index does: ignoring case and diacritics."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._folding = _Folding()
        self._patterns = [pattern for term in terms if (pattern := self._pattern(term))]
        self._hit = re.compile("|".join(self._patterns)) if self._patterns else None

    def make(self, text: str, width: int = 240) -> Snippet:
        """Return `width` characters around the first hit, on one line, safe to show."""
        text = clean(text[:_LOOKED_AT])
        start = 0
        if self._hit is not None:
            first = self._hit.search(self._fold(text))
            if first is not None:
                start = max(0, first.start() - int(width * _BEFORE))
        end = start + 2 * width
        shown = " ".join(text[start:end].split())
        if start:
            # Start at the beginning of a word, if one is near.
            space = shown.find(" ", 0, 20)
            shown = "…" + shown[space + 1 :]
        if len(shown) > width or end < len(text):
            shown = shown[: width - 1].rstrip() + "…"
        return Snippet(shown, self.hits(shown))

    def hits(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of the words in `text`."""
        if self._hit is None:
            return ()
        return tuple(match.span() for match in self._hit.finditer(self._fold(text)))

    def matches_all(self, text: str) -> bool:
        """Return whether each term occurs in `text`."""
        folded = self._fold(text)
        return bool(self._patterns) and all(re.search(each, folded) for each in self._patterns)

    def _fold(self, text: str) -> str:
        return text.lower() if text.isascii() else text.translate(self._folding)

    def _pattern(self, term: Term) -> str:
        words = re.findall(r"[^\W_]+", self._fold(term.text))
        if not words:
            return ""
        before = "" if is_unspaced(words[0][0]) else r"(?<![^\W_])"
        after = "" if term.is_prefix or is_unspaced(words[-1][-1]) else r"(?![^\W_])"
        rest = r"[^\W_]*" if term.is_prefix and not is_unspaced(words[-1][-1]) else ""
        return before + r"[\W_]+".join(map(re.escape, words)) + after + rest


CANDIDATES = 1500
"""If more messages match, only this many of the newest are ranked."""
LOOKS = 3
"""How many times older candidates are searched, with growing limits, if too few chats match."""
HITS_IN_A_CHAT = 3
_FRESH_DAYS = 60.0
"""Days after which the ranking advantage of a new message has fallen to a third."""

_MESSAGE = "SELECT m.row, m.id, m.chat, m.role, m.model, m.created"
_FILTERS = (
    "(:chats IS NULL OR m.chat IN (SELECT value FROM json_each(:chats)))"
    " AND (:before IS NULL OR m.created < :before) AND (:after IS NULL OR m.created >= :after)"
)
_NEWEST = f"{_MESSAGE} FROM messages m WHERE {_FILTERS} ORDER BY m.created DESC LIMIT :limit"
_FILTERED = (
    f"{_MESSAGE}, bm25(words) FROM words CROSS JOIN messages m ON m.row = words.rowid"
    f" WHERE words MATCH :match AND {_FILTERS}"
    " AND words.rowid < :below ORDER BY words.rowid DESC LIMIT :limit"
)
# Ranked before the join: only the newest matches are looked up.
_ALL = (
    "SELECT m.row, m.id, m.chat, m.role, m.model, m.created, f.score FROM"
    " (SELECT bm25(words) AS score, rowid FROM words WHERE words MATCH :match"
    " AND rowid < :below ORDER BY rowid DESC LIMIT :limit) f"
    " CROSS JOIN messages m ON m.row = f.rowid"
)


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that matches; `message` is None if only the chat's own title does."""

    chat: str
    message: str | None
    title: str
    role: str
    model: str
    created: float
    folder: str
    pinned: bool
    snippet: Snippet


def search_chats(connection: Connection, query: SearchQuery, limit: int) -> list[SearchHit]:
    """Return the hits of a query, best first, at most `limit`, and a few per chat."""
    return [] if query.is_empty else _Search(connection, query).hits(limit)


_Row = tuple[int, str, str, str, str, float]


class _Search:
    """One search; the settings of all chats are read once, and parsed on demand."""

    def __init__(self, connection: Connection, query: SearchQuery) -> None:
        self._connection = connection
        self._query = query
        self._maker = SnippetMaker(query.terms)
        self._bodies: dict[str, str] = dict(connection.execute(LATEST_SETTINGS))
        self._known: dict[str, ChatSettings] = {}

    def hits(self, limit: int) -> list[SearchHit]:
        """Return chats found by their title, then messages, at most `limit` in all."""
        chats = self._chats_of_filters()
        if chats is not None and not chats:
            return []
        hits = self._title_hits(chats)[:limit]
        for row, name, chat, role, model, created in self._ranked(chats, limit):
            if len(hits) >= limit:
                break
            text = whole_text(self._connection, row)
            hits.append(self._hit(chat, text, name, role, model, created))
        return hits

    def _settings(self, chat: str) -> ChatSettings:
        if chat not in self._known:
            self._known[chat] = decode_settings(chat, self._bodies.get(chat))
        return self._known[chat]

    def _hit(
        self, chat: str, text: str, message: str | None, role: str, model: str, created: float
    ) -> SearchHit:
        settings = self._settings(chat)
        return SearchHit(
            chat=chat,
            message=message,
            title=settings.title or automatic_title(first_prompt(self._connection, chat)),
            role=role,
            model=model,
            created=created,
            folder=settings.folder,
            pinned=settings.pinned,
            snippet=self._maker.make(text),
        )

    def _chats_of_filters(self) -> set[str] | None:
        """Return the chats that pass the filters, None for all."""
        query = self._query
        found: set[str] | None = None
        if query.folder is not None or query.pinned:
            wanted = (query.folder or "").casefold()
            found = {
                chat
                for chat in self._bodies
                if (not query.pinned or self._settings(chat).pinned)
                and wanted in self._settings(chat).folder.casefold()
            }
        if query.model is not None:
            models = [
                model
                for (model,) in self._connection.execute(
                    "WITH RECURSIVE each(model) AS (SELECT min(model) FROM messages UNION ALL"
                    " SELECT (SELECT min(model) FROM messages WHERE messages.model > each.model)"
                    " FROM each WHERE each.model IS NOT NULL)"
                    " SELECT model FROM each WHERE model IS NOT NULL"
                )
                if query.model.casefold() in model.casefold()
            ]
            rows = self._connection.execute(
                "SELECT DISTINCT chat FROM messages"
                " WHERE model IN (SELECT value FROM json_each(?))",
                (json.dumps(models),),
            )
            of_model = {chat for (chat,) in rows}
            found = of_model if found is None else found & of_model
        return found

    def _ranked(self, chats: set[str] | None, limit: int) -> list[_Row]:
        """Return the rows of matching messages, best first, a few per chat."""
        query = self._query
        values: dict[str, Any] = {
            "match": query.match(),
            "chats": None if chats is None else json.dumps(list(chats)),
            "before": query.before,
            "after": query.after,
            "limit": CANDIDATES,
            "below": 1 << 62,
        }
        if not query.terms:
            return _few_of_each(self._connection.execute(_NEWEST, values).fetchall())
        statement = _FILTERED if query.has_filters else _ALL
        found: list[_Row] = []
        now = time.time()
        for _ in range(LOOKS):
            rows = self._connection.execute(statement, values).fetchall()
            rows.sort(key=lambda row: row[6] * _freshness(now - row[5]))
            found = _few_of_each([*found, *(row[:6] for row in rows)])
            if len(found) >= limit or len(rows) < values["limit"]:
                break
            values["below"] = min(row[0] for row in rows)
            values["limit"] *= 4
        return found

    def _title_hits(self, chats: set[str] | None) -> list[SearchHit]:
        """Return chats whose own title has all the words; automatic titles are found as prompts."""
        hits: list[SearchHit] = []
        if not self._query.terms or self._query.before is not None or self._query.after is not None:
            return hits
        for chat, body in self._bodies.items():
            if '"title":""' in body or (chats is not None and chat not in chats):
                continue
            title = self._settings(chat).title
            if self._maker.matches_all(title):
                created, model = self._connection.execute(
                    "SELECT max(created), model FROM messages WHERE chat = ?", (chat,)
                ).fetchone()
                hits.append(self._hit(chat, title, None, "", model or "", created or 0.0))
        hits.sort(key=lambda hit: hit.created, reverse=True)
        return hits


def _few_of_each(rows: list[_Row]) -> list[_Row]:
    counts: Counter[str] = Counter()
    kept: list[_Row] = []
    for row in rows:
        counts[row[2]] += 1
        if counts[row[2]] <= HITS_IN_A_CHAT:
            kept.append(row)
    return kept


def _freshness(age: float) -> float:
    """Return the factor for a score: 1 for the newest message, a half for the oldest."""
    return 0.5 + 0.5 * math.exp(-max(0.0, age) / 86400 / _FRESH_DAYS)
