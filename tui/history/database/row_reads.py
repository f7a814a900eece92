"""Reads chat lists, drafts, prompts and statistics from the database."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from ...chats.message import MessageFacts
from ...composing.text_chips import with_labels
from .chat_reads import decode_settings
from .damaged_values import decode_value

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
    found: list[ChatSummary] = []
    for chat, created, messages, last, draft, drafted in connection.execute(
        "SELECT c.id, c.created, count(m.row), max(m.created), d.text, d.changed FROM chats c"
        " LEFT JOIN drafts d ON d.chat = c.id LEFT JOIN messages m ON m.chat = c.id GROUP BY c.id"
        " UNION ALL SELECT chat, changed, 0, NULL, text, changed FROM drafts"
        " WHERE chat NOT IN (SELECT id FROM chats)"
    ):
        settings = decode_settings(chat, bodies.get(chat))
        if folder is None or settings.folder == folder:
            summary = ChatSummary(
                id=chat,
                title=settings.title,
                created=created,
                changed=max(last or created, drafted or 0.0),
                messages=messages,
                model=settings.model or "",
                folder=settings.folder,
                pinned=settings.pinned,
                draft=with_labels(draft or ""),
            )
            found.append(summary)
    found.sort(key=lambda chat: (chat.pinned, chat.changed), reverse=True)
    return [_completed(connection, chat) for chat in found[:limit]]


def _completed(connection: Connection, chat: ChatSummary) -> ChatSummary:
    """Return the summary with the title and the model that its settings leave open."""
    from ...chats.automatic_title import automatic_title  # its patterns take long to compile

    title = chat.title or automatic_title(first_prompt(connection, chat.id))
    model = chat.model
    if not model and chat.messages:
        found = connection.execute(
            "SELECT model FROM messages WHERE chat = ? AND model != ''"
            " ORDER BY created DESC LIMIT 1",
            (chat.id,),
        ).fetchone()
        model = "" if found is None else found[0]
    return msgspec.structs.replace(chat, title=title or automatic_title(chat.draft), model=model)


def folders(connection: Connection) -> list[tuple[str, int]]:
    """Return the folders in use, by name, with their number of chats."""
    counts: dict[str, int] = defaultdict(int)
    for chat, body in connection.execute(LATEST_SETTINGS):
        folder = decode_settings(chat, body).folder
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
        facts = decode_value(body, MessageFacts, "the statistics of an answer") or MessageFacts()
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
        "SELECT coalesce(iif(json_valid(facts), json_extract(facts, '$.route'), NULL), 'local'),"
        " count(*) FROM endings e JOIN messages m ON m.row = e.message"
        " WHERE m.role = 'assistant' GROUP BY 1"
    )
    return {str(route): int(count) for route, count in rows}


def first_prompt(connection: Connection, chat: str) -> str:
    """Return a chat's first prompt."""
    found = connection.execute(
        "SELECT content FROM messages WHERE chat = ? AND role = 'user' ORDER BY row LIMIT 1",
        (chat,),
    ).fetchone()
    return "" if found is None else found[0]


def initial_lengths(connection: Connection, message: str) -> tuple[int, int]:
    """Return the characters of text and reasoning with which a message was added, before later
    pieces.
    """
    found = connection.execute(
        "SELECT content, reasoning FROM messages WHERE id = ?", (message,)
    ).fetchone()
    return (0, 0) if found is None else (len(found[0] or ""), len(found[1] or ""))
