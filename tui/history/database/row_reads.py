"""Reads what lists of chats and statistics show, over a connection."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from ...chats.automatic_title import automatic_title
from ...chats.chat import ChatSettings
from ...chats.message import MessageFacts
from .chat_reads import decode_settings
from .text_index import whole_text

if TYPE_CHECKING:
    from sqlite3 import Connection

SPEEDS_FROM = 2000
"""Number of recent answers from which model speeds are computed."""

LATEST_SETTINGS = (
    "SELECT chat, body FROM settings WHERE row IN (SELECT max(row) FROM settings GROUP BY chat)"
)


class ChatSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the chat list; `changed` is the time of the last message, Unix seconds."""

    id: str
    title: str
    created: float
    changed: float
    messages: int
    model: str
    folder: str
    pinned: bool
    draft: str


class UnfinishedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose program has ended; `generation` is its id in the daemon, if known."""

    chat: str
    message: str
    model: str
    generation: str | None


class ModelSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over a model's recent answers: tokens per second, and seconds to the first token."""

    model: str
    answers: int
    tokens_per_second: float
    first_token: float | None


def load_draft(connection: Connection, chat: str) -> str:
    """Return the draft of a chat."""
    found = connection.execute("SELECT text FROM drafts WHERE chat = ?", (chat,)).fetchone()
    return "" if found is None else found[0]


def recent_chats(
    connection: Connection, limit: int, folder: str | None = None
) -> list[ChatSummary]:
    """Return the chats of one folder or all, pinned first, then the newest first."""
    bodies: dict[str, str] = dict(connection.execute(LATEST_SETTINGS))
    drafts = {
        chat: (text, changed)
        for chat, text, changed in connection.execute("SELECT chat, text, changed FROM drafts")
    }
    heads = connection.execute(
        "SELECT chats.id, chats.created, count(messages.row), max(messages.created)"
        " FROM chats LEFT JOIN messages ON messages.chat = chats.id GROUP BY chats.id"
    ).fetchall()
    known = {head[0] for head in heads}
    heads += [
        (chat, changed, 0, None) for chat, (_, changed) in drafts.items() if chat not in known
    ]
    found: list[tuple[bool, float, tuple[Any, ...], ChatSettings]] = []
    for head in heads:
        settings = decode_settings(bodies.get(head[0]))
        if folder is None or settings.folder == folder:
            changed = max(head[3] or head[1], drafts.get(head[0], ("", 0.0))[1])
            found.append((settings.pinned, changed, head, settings))
    found.sort(key=lambda each: each[:2], reverse=True)
    return [
        _summary(connection, head, changed, settings, drafts.get(head[0], ("", 0.0))[0])
        for _, changed, head, settings in found[:limit]
    ]


def folders(connection: Connection) -> list[tuple[str, int]]:
    """Return the folders in use, by name, with their number of chats."""
    counts: dict[str, int] = defaultdict(int)
    for _, body in connection.execute(LATEST_SETTINGS):
        folder = decode_settings(body).folder
        if folder:
            counts[folder] += 1
    return sorted(counts.items(), key=lambda each: each[0].casefold())


def recent_prompts(connection: Connection, limit: int) -> list[str]:
    """Return the latest prompts of all chats, newest first, without duplicates."""
    prompts: dict[str, None] = {}
    for (content,) in connection.execute(
        "SELECT content FROM messages WHERE role = 'user' ORDER BY created DESC LIMIT ?",
        (4 * limit,),
    ):
        if content.strip():
            prompts.setdefault(content)
        if len(prompts) == limit:
            break
    return list(prompts)


def claim_unfinished(connection: Connection, session: int) -> list[UnfinishedAnswer]:
    """Claim answers that ended programs left open; this session now follows them.

    Needs a write transaction, so that two chats started at once never claim the same answer.
    """
    rows = connection.execute(
        "SELECT m.row, m.chat, m.id, m.model, g.generation, ifnull(g.session, m.session)"
        " FROM messages m LEFT JOIN generations g ON g.row ="
        " (SELECT max(row) FROM generations WHERE message = m.row)"
        " WHERE m.session IS NOT NULL AND m.role = 'assistant'"
        " AND NOT EXISTS (SELECT 1 FROM endings WHERE message = m.row) ORDER BY m.row"
    ).fetchall()
    alive = living_sessions(connection, {row[5] for row in rows} - {session}) | {session}
    left = [row for row in rows if row[5] not in alive]
    connection.executemany(
        "INSERT INTO generations(message, generation, session) VALUES (?, ?, ?)",
        [(row[0], row[4], session) for row in left],
    )
    return [
        UnfinishedAnswer(chat=chat, message=message, model=model, generation=generation)
        for _, chat, message, model, generation, _ in left
    ]


def model_speeds(connection: Connection) -> dict[str, ModelSpeed]:
    """Return the measured speed of each model, by name."""
    from statistics import median

    speeds: dict[str, list[float]] = defaultdict(list)
    waits: dict[str, list[float]] = defaultdict(list)
    for model, body in connection.execute(
        "SELECT m.model, e.facts FROM endings e JOIN messages m ON m.row = e.message"
        " ORDER BY e.row DESC LIMIT ?",
        (SPEEDS_FROM,),
    ):
        facts = msgspec.json.decode(body, type=MessageFacts)
        if model and facts.speed is not None and facts.completion_tokens > 1:
            speeds[model].append(facts.speed)
            if facts.first_token is not None:
                waits[model].append(facts.first_token)
    return {
        model: ModelSpeed(
            model=model,
            answers=len(found),
            tokens_per_second=median(found),
            first_token=median(waits[model]) if waits[model] else None,
        )
        for model, found in speeds.items()
    }


def route_counts(connection: Connection) -> dict[str, int]:
    """Return the number of answers by route, over all chats."""
    rows = connection.execute(
        "SELECT coalesce(json_extract(facts, '$.route'), 'local'), count(*) FROM endings GROUP BY 1"
    )
    return {str(route): int(count) for route, count in rows}


def first_prompt(connection: Connection, chat: str) -> str:
    """Return a chat's first prompt."""
    found = connection.execute(
        "SELECT content FROM messages WHERE chat = ? AND role = 'user' ORDER BY row LIMIT 1",
        (chat,),
    ).fetchone()
    return "" if found is None else found[0]


def message_text(connection: Connection, message: str) -> str:
    """Return a message's text, "" if missing."""
    found = connection.execute("SELECT row FROM messages WHERE id = ?", (message,)).fetchone()
    return "" if found is None else whole_text(connection, found[0])


def initial_lengths(connection: Connection, message: str) -> tuple[int, int]:
    """Return the characters of text and reasoning with which a message was added, before later
    pieces.
    """
    found = connection.execute(
        "SELECT content, reasoning FROM messages WHERE id = ?", (message,)
    ).fetchone()
    return (0, 0) if found is None else (len(found[0] or ""), len(found[1] or ""))


def _summary(
    connection: Connection,
    head: tuple[Any, ...],
    changed: float,
    settings: ChatSettings,
    draft: str,
) -> ChatSummary:
    chat, created, messages, _ = head
    title = settings.title or automatic_title(first_prompt(connection, chat))
    model = settings.model
    if model is None and messages:
        found = connection.execute(
            "SELECT model FROM messages WHERE chat = ? AND model != ''"
            " ORDER BY created DESC LIMIT 1",
            (chat,),
        ).fetchone()
        model = None if found is None else found[0]
    return ChatSummary(
        id=chat,
        title=title or automatic_title(draft),
        created=created,
        changed=changed,
        messages=messages,
        model=model or "",
        folder=settings.folder,
        pinned=settings.pinned,
        draft=draft,
    )


def living_sessions(connection: Connection, sessions: set[int]) -> set[int]:
    """Return those of `sessions` whose program is still running."""
    import psutil

    alive: set[int] = set()
    for session in sessions:
        found = connection.execute(
            "SELECT pid, started FROM sessions WHERE row = ?", (session,)
        ).fetchone()
        if found is None:
            continue
        try:
            program = psutil.Process(found[0])
            # A program started after the session was recorded merely reuses its process id; a
            # zombie is dead too.
            began_before = program.create_time() <= found[1] + 1
            if began_before and program.status() != psutil.STATUS_ZOMBIE:
                alive.add(session)
        except psutil.Error:
            continue
    return alive
