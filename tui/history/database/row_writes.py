"""Database statements that write chats, messages, settings and deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from .damaged_values import decode_value
from .text_index import index_message, unindex_message

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ...chats.message import CompactionRecord, Ending, Message


def storable(text: str) -> str:
    """Return `text` without unpaired surrogates, which the database rejects."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable_json(value: object) -> str:
    """Return a value as JSON for a row."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_halves(msgspec.to_builtins(value))).decode()


def _without_halves(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {storable(key): _without_halves(each) for key, each in items}
    if isinstance(value, (list, tuple)):
        return [_without_halves(each) for each in cast("list[Any]", value)]
    return value


def add_chat(
    connection: Connection,
    id: str,  # noqa: A002
    created: float,
    body: str,
    source: str | None = None,
) -> None:
    """Add a chat with its settings, unless it exists; `source` names the origin of an import."""
    connection.execute(
        "INSERT OR IGNORE INTO chats(id, created, source) VALUES (?, ?, ?)", (id, created, source)
    )
    add_settings(connection, id, body)


def add_settings(connection: Connection, chat: str, body: str, known: str | None = None) -> None:
    """Set the chat's settings, unless they are the same or the chat is missing.

    If another program changed them since they were `known`, only the differences from `known` are
    applied.
    """
    last = connection.execute(
        "SELECT body FROM settings WHERE chat = ? ORDER BY row DESC LIMIT 1", (chat,)
    ).fetchone()
    if last is not None and known not in (None, last[0]):
        before, wanted = msgspec.json.decode(known or "{}"), msgspec.json.decode(body)
        changed = {name: value for name, value in wanted.items() if before.get(name) != value}
        what = f"the settings of chat {chat}"
        present = decode_value(last[0], dict[str, object], what) or {}
        body = storable_json(present | changed)
    if last is None or last[0] != body:
        connection.execute(
            "INSERT INTO settings(chat, body) SELECT id, ? FROM chats WHERE id = ?", (body, chat)
        )


def add_message(connection: Connection, chat: str, message: Message, session: int | None) -> None:
    """Add a message; `session` is that of the program that writes an open answer."""
    row = connection.execute(
        "INSERT INTO messages(id, chat, parent, role, created, model, content, reasoning,"
        " attachments, session) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            message.id,
            chat,
            message.parent,
            message.role,
            message.created,
            storable(message.model),
            storable(message.content),
            storable(message.reasoning),
            storable_json(message.attachments) if message.attachments else None,
            session if message.is_open else None,
        ),
    ).lastrowid
    if message.ending is not None:
        connection.execute(
            "INSERT INTO endings(message, ending, facts, pieces) VALUES (?, ?, ?, 0)",
            (row, message.ending, storable_json(message.facts)),
        )
    if not message.is_open:
        index_message(connection, row)
    if message.generation is not None and session is not None:
        add_generation(connection, message.id, message.generation, session)
    if message.pinned:
        add_message_pin(connection, message.id, True)


def add_piece(connection: Connection, message: str, text: str, reasoning: str) -> None:
    """Append text to an answer, unless it was deleted meanwhile."""
    connection.execute(
        "INSERT INTO pieces(message, number, text, reasoning) SELECT row, 1 + ifnull("
        "(SELECT max(number) FROM pieces WHERE message = row), 0), ?, ? FROM messages WHERE id = ?",
        (text, reasoning, message),
    )


def add_generation(connection: Connection, message: str, generation: str, session: int) -> None:
    """Set an answer's generation id in the daemon, and the session that follows it."""
    connection.execute(
        "INSERT INTO generations(message, generation, session)"
        " SELECT row, ?, ? FROM messages WHERE id = ?",
        (generation, session, message),
    )


def add_ending(connection: Connection, message: str, ending: Ending, facts: str) -> None:
    """Complete an answer, and add it to the full-text index."""
    found = connection.execute(
        "SELECT row, (SELECT ifnull(max(number), 0) FROM pieces WHERE message = row)"
        " FROM messages WHERE id = ?",
        (message,),
    ).fetchone()
    if found is None:
        return
    row, pieces = found
    unindex_message(connection, row)
    connection.execute(
        "INSERT INTO endings(message, ending, facts, pieces) VALUES (?, ?, ?, ?)",
        (row, ending, facts, pieces),
    )
    index_message(connection, row)


def add_choice(connection: Connection, message: str) -> None:
    """Record that the message's branch is the one on the screen."""
    connection.execute(
        "INSERT INTO choices(message, after) SELECT row, (SELECT max(row) FROM messages)"
        " FROM messages WHERE id = ?",
        (message,),
    )


def add_message_pin(connection: Connection, message: str, pinned: bool) -> None:
    """Pin a message, so that compaction keeps it verbatim, or unpin it."""
    connection.execute(
        "INSERT INTO message_pins(message, pinned) SELECT row, ? FROM messages WHERE id = ?",
        (pinned, message),
    )


def add_compaction(connection: Connection, chat: str, compaction: CompactionRecord) -> None:
    """Record a compaction: its summary replaces the messages before it in requests."""
    connection.execute(
        "INSERT INTO compactions(id, chat, at, body) VALUES (?, ?, ?, ?)",
        (compaction.id, chat, compaction.at, storable_json(compaction)),
    )


def add_undo(connection: Connection, compaction: str) -> None:
    """Undo a compaction: the original messages are sent again."""
    connection.execute("INSERT INTO undos(compaction) VALUES (?)", (compaction,))


def save_draft(connection: Connection, chat: str, text: str, changed: float) -> None:
    """Save the draft of a chat; an empty draft is deleted."""
    if text:
        connection.execute(
            "INSERT INTO drafts(chat, text, changed) VALUES (?, ?, ?)"
            " ON CONFLICT(chat) DO UPDATE SET text = excluded.text, changed = excluded.changed",
            (chat, text, changed),
        )
    else:
        connection.execute("DELETE FROM drafts WHERE chat = ?", (chat,))


def remove_message(connection: Connection, message: str) -> None:
    """Delete a message and all its descendants, with compactions that cover them."""
    rows = connection.execute(
        "WITH RECURSIVE gone(id) AS (SELECT ? UNION ALL"
        " SELECT messages.id FROM messages JOIN gone ON messages.parent = gone.id)"
        " SELECT row, messages.id FROM messages JOIN gone ON messages.id = gone.id",
        (message,),
    ).fetchall()
    connection.executemany("DELETE FROM compactions WHERE at = ?", [(name,) for _, name in rows])
    _delete_messages(connection, [row for row, _ in rows])


def delete_chat(connection: Connection, chat: str) -> None:
    """Delete a chat with everything that belongs to it."""
    rows = connection.execute("SELECT row FROM messages WHERE chat = ?", (chat,)).fetchall()
    _delete_messages(connection, [row for (row,) in rows])
    connection.execute("DELETE FROM drafts WHERE chat = ?", (chat,))
    connection.execute("DELETE FROM chats WHERE id = ?", (chat,))


def _delete_messages(connection: Connection, rows: list[int]) -> None:
    for row in rows:
        unindex_message(connection, row)
    # Descendants first, because of the foreign keys.
    rows.sort(reverse=True)
    connection.executemany("DELETE FROM messages WHERE row = ?", [(row,) for row in rows])
    # Deleted table rows are overwritten at once, index entries only when parts are merged.
    connection.execute("INSERT OR IGNORE INTO chores(name) VALUES ('wipe')")
