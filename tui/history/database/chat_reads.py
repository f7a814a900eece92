"""Reads one chat with its messages, settings and compactions, over a connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ...chats.chat import Chat, ChatSettings
from ...chats.compaction_record import CompactionRecord
from ...chats.message import Attachment, Message, MessageFacts

if TYPE_CHECKING:
    from sqlite3 import Connection


def load_chat(connection: Connection, chat: str) -> Chat | None:
    """The whole chat as it was left, None where there is none; one with only a draft is empty."""
    connection.execute("BEGIN")
    try:
        found = connection.execute("SELECT created FROM chats WHERE id = ?", (chat,)).fetchone()
        if found is None:
            return _drafted_chat(connection, chat)
        rows, messages = _messages(connection, chat)
        loaded = Chat.restore(
            load_settings(connection, chat),
            messages.values(),
            _chosen(connection, chat, rows, messages),
            id=chat,
            created=found[0],
        )
        _add_compactions(connection, loaded)
    finally:
        connection.execute("COMMIT")
    return loaded


def load_settings(connection: Connection, chat: str) -> ChatSettings:
    """What a chat is held with."""
    found = connection.execute(
        "SELECT body FROM settings WHERE chat = ? ORDER BY row DESC LIMIT 1", (chat,)
    ).fetchone()
    return decode_settings(None if found is None else found[0])


def decode_settings(body: str | None) -> ChatSettings:
    return ChatSettings() if body is None else msgspec.json.decode(body, type=ChatSettings)


def _drafted_chat(connection: Connection, chat: str) -> Chat | None:
    found = connection.execute("SELECT changed FROM drafts WHERE chat = ?", (chat,)).fetchone()
    return None if found is None else Chat(id=chat, created=found[0])


def _messages(connection: Connection, chat: str) -> tuple[dict[int, str], dict[str, Message]]:
    """Names by row, and messages by name, in the order they were added."""
    rows: dict[int, str] = {}
    messages: dict[str, Message] = {}
    by_row: dict[int, Message] = {}
    for (
        row,
        name,
        parent,
        role,
        created,
        model,
        content,
        reasoning,
        attachments,
    ) in connection.execute(
        "SELECT row, id, parent, role, created, model, content, reasoning, attachments"
        " FROM messages WHERE chat = ? ORDER BY row",
        (chat,),
    ):
        rows[row] = name
        by_row[row] = messages[name] = Message(
            role=role,
            content=content,
            parent=parent,
            id=name,
            created=created,
            model=model,
            reasoning=reasoning,
        )
        if attachments is not None:
            by_row[row].attachments = msgspec.json.decode(attachments, type=tuple[Attachment, ...])
    _add_pieces(connection, chat, by_row)
    _add_endings(connection, chat, by_row)
    return rows, messages


def _add_pieces(connection: Connection, chat: str, messages: dict[int, Message]) -> None:
    texts: dict[int, list[str]] = defaultdict(list)
    thoughts: dict[int, list[str]] = defaultdict(list)
    for row, text, thought in connection.execute(
        "SELECT p.message, p.text, p.reasoning FROM pieces p JOIN messages m ON m.row = p.message"
        " WHERE m.chat = ? ORDER BY p.message, p.number",
        (chat,),
    ):
        texts[row].append(text)
        if thought:
            thoughts[row].append(thought)
    for row, parts in texts.items():
        messages[row].content += "".join(parts)
    for row, parts in thoughts.items():
        messages[row].reasoning += "".join(parts)


def _add_endings(connection: Connection, chat: str, messages: dict[int, Message]) -> None:
    """Endings, names in the daemon and pins; the last of each counts."""
    for row, ending, facts in connection.execute(
        "SELECT e.message, e.ending, e.facts FROM endings e JOIN messages m ON m.row = e.message"
        " WHERE m.chat = ? ORDER BY e.row",
        (chat,),
    ):
        messages[row].ending = ending
        known = facts != "{}"
        messages[row].facts = (
            msgspec.json.decode(facts, type=MessageFacts) if known else MessageFacts()
        )
    for row, generation in connection.execute(
        "SELECT g.message, g.generation FROM generations g JOIN messages m ON m.row = g.message"
        " WHERE m.chat = ? ORDER BY g.row",
        (chat,),
    ):
        messages[row].generation = generation
    for row, pinned in connection.execute(
        "SELECT p.message, p.pinned FROM message_pins p JOIN messages m ON m.row = p.message"
        " WHERE m.chat = ? ORDER BY p.row",
        (chat,),
    ):
        messages[row].pinned = bool(pinned)


def _chosen(
    connection: Connection, chat: str, rows: dict[int, str], messages: dict[str, Message]
) -> Iterable[str]:
    """The chosen child of every message: by the last choice or the last addition, as it came."""
    chosen: dict[str | None, str] = {}
    added = iter(rows.items())
    waiting = next(added, None)
    for row, after in connection.execute(
        "SELECT c.message, c.after FROM choices c JOIN messages m ON m.row = c.message"
        " WHERE m.chat = ? ORDER BY c.row",
        (chat,),
    ):
        while waiting is not None and waiting[0] <= after:
            chosen[messages[waiting[1]].parent] = waiting[1]
            waiting = next(added, None)
        step: str | None = rows[row]
        while step is not None:
            parent = messages[step].parent
            chosen[parent] = step
            step = parent
    while waiting is not None:
        chosen[messages[waiting[1]].parent] = waiting[1]
        waiting = next(added, None)
    return chosen.values()


def _add_compactions(connection: Connection, chat: Chat) -> None:
    for (body,) in connection.execute(
        "SELECT body FROM compactions WHERE chat = ? ORDER BY row", (chat.id,)
    ):
        chat.add_compaction(msgspec.json.decode(body, type=CompactionRecord))
    for (compaction,) in connection.execute(
        "SELECT u.compaction FROM undos u JOIN compactions c ON c.id = u.compaction"
        " WHERE c.chat = ? ORDER BY u.row",
        (chat.id,),
    ):
        chat.undo_compaction(compaction)
