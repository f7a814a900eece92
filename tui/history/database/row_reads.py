"""Reads what lists of chats and statistics show, over a connection."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from ...chats.automatic_title import automatic_title
from ...chats.chat import ChatSettings
from ...chats.message import Attachment, Message, MessageFacts
from .chat_reads import decode_settings

if TYPE_CHECKING:
    from sqlite3 import Connection

SPEEDS_FROM = 2000
"""How many of the last answers are looked at for the speeds of models."""

LATEST_SETTINGS = (
    "SELECT chat, body FROM settings WHERE row IN (SELECT max(row) FROM settings GROUP BY chat)"
)


class ChatSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the list of chats; `changed` is when something was said last, since 1970."""

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
    """An answer that nobody follows any more; `generation` is its name in the daemon, if known."""

    chat: str
    message: str
    model: str
    generation: str | None


class ModelSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over a model's last answers here: tokens a second, and seconds to the first."""

    model: str
    answers: int
    tokens_per_second: float
    first_token: float | None


def load_draft(connection: Connection, chat: str) -> str:
    """What stood in the composer of a chat."""
    found = connection.execute("SELECT text FROM drafts WHERE chat = ?", (chat,)).fetchone()
    return "" if found is None else found[0]


def recent_chats(
    connection: Connection, limit: int, folder: str | None = None
) -> list[ChatSummary]:
    """The chats, pinned ones first, then the newest first; of one folder, or of all."""
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
    """The folders in use with how many chats each has, by name."""
    counts: dict[str, int] = defaultdict(int)
    for _, body in connection.execute(LATEST_SETTINGS):
        folder = decode_settings(body).folder
        if folder:
            counts[folder] += 1
    return sorted(counts.items(), key=lambda each: each[0].casefold())


def recent_prompts(connection: Connection, limit: int) -> list[str]:
    """The last prompts of all chats, the newest first, each once."""
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
    """Answers left open by programs that are gone; from now on this one is to follow them.

    Needs a transaction that writes: so two chats that start at once never take up the same answer.
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
    """What each model reached here, by its name."""
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
    """How many answers of all chats went which way."""
    rows = connection.execute(
        "SELECT coalesce(json_extract(facts, '$.route'), 'local'), count(*) FROM endings GROUP BY 1"
    )
    return {str(route): int(count) for route, count in rows}


def first_prompt(connection: Connection, chat: str) -> str:
    """What a chat began with."""
    found = connection.execute(
        "SELECT content FROM messages WHERE chat = ? AND role = 'user' ORDER BY row LIMIT 1",
        (chat,),
    ).fetchone()
    return "" if found is None else found[0]


def whole_text(connection: Connection, row: int) -> str:
    """What a message says, with all its pieces, and the text of its attachments in front."""
    content, attachments = connection.execute(
        "SELECT content, attachments FROM messages WHERE row = ?", (row,)
    ).fetchone()
    pieces = connection.execute("SELECT text FROM pieces WHERE message = ? ORDER BY number", (row,))
    content += "".join(piece for (piece,) in pieces)
    if attachments is None:
        return content
    parsed = msgspec.json.decode(attachments, type=tuple[Attachment, ...])
    return Message(role="user", content=content, attachments=parsed).text


def message_text(connection: Connection, message: str) -> str:
    """What a message says, "" where there is none."""
    found = connection.execute("SELECT row FROM messages WHERE id = ?", (message,)).fetchone()
    return "" if found is None else whole_text(connection, found[0])


def given_lengths(connection: Connection, message: str) -> tuple[int, int]:
    """The characters of text and of thoughts that a message was added with, before its pieces."""
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
    """Those of `sessions` whose program still runs."""
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
            # A program that began after the session was written down only has its number, and one
            # that nobody has waited for yet is dead all the same.
            began_before = program.create_time() <= found[1] + 1
            if began_before and program.status() != psutil.STATUS_ZOMBIE:
                alive.add(session)
        except psutil.Error:
            continue
    return alive
