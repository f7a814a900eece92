"""Reads one chat with its messages, settings and compactions, over a connection."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...chats.chat import Chat, ChatSettings
from ...chats.message import Attachment, CompactionRecord, Ending, Message, MessageFacts, Role
from .damaged_values import decode_value, note_damage
from .transactions import snapshot

if TYPE_CHECKING:
    from sqlite3 import Connection


def load_chat(connection: Connection, chat: str) -> Chat | None:
    """Return the whole chat as it was left, None if missing; one with only a draft is empty."""
    with snapshot(connection):
        found = connection.execute("SELECT created FROM chats WHERE id = ?", (chat,)).fetchone()
        if found is None:
            drafted = connection.execute("SELECT changed FROM drafts WHERE chat = ?", (chat,))
            found = drafted.fetchone()
            return None if found is None else Chat(id=chat, created=found[0])
        messages = _messages(connection, "chat", chat)
        _mend(messages.values())
        loaded = Chat.restore(
            load_settings(connection, chat),
            messages.values(),
            _chosen(connection, chat, messages),
            id=chat,
            created=found[0],
        )
        _add_compactions(connection, loaded)
        return loaded


def load_message(connection: Connection, message: str) -> Message | None:
    """Return a message in its stored state, None if it was deleted."""
    with snapshot(connection):
        return next(iter(_messages(connection, "id", message).values()), None)


def load_settings(connection: Connection, chat: str) -> ChatSettings:
    """Return the settings of a chat, the defaults if it has none."""
    found = connection.execute(
        "SELECT body FROM settings WHERE chat = ? ORDER BY row DESC LIMIT 1", (chat,)
    ).fetchone()
    return decode_settings(chat, None if found is None else found[0])


def decode_settings(chat: str, body: str | None) -> ChatSettings:
    """Return the settings in a chat's row, the defaults without one or if it is damaged."""
    if body is None:
        return ChatSettings()
    return decode_value(body, ChatSettings, f"the settings of chat {chat}") or ChatSettings()


_Selector = Literal["chat", "id"]
"""The column of `messages` that selects all messages of a chat, or one message."""


def _messages(connection: Connection, by: _Selector, value: str) -> dict[int, Message]:
    """Return the selected messages by row, in the order in which they were added."""
    names = ("id", "parent", "role", "created", "model", "content", "reasoning")
    messages: dict[int, Message] = {}
    for row, attachments, *values in connection.execute(
        f"SELECT row, attachments, {', '.join(names)} FROM messages WHERE {by} = ? ORDER BY row",  # noqa: S608
        (value,),
    ):
        message = messages[row] = Message(**dict(zip(names, values, strict=True)))
        if attachments is not None:
            what = f"the attachments of message {message.id}"
            message.attachments = decode_value(attachments, tuple[Attachment, ...], what) or ()
    pieces: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for row, *piece in _rows_about(connection, by, value, "pieces", "text", "reasoning"):
        pieces[row].append((piece[0], piece[1]))
    for row, parts in pieces.items():
        messages[row].content += "".join(text for text, _ in parts)
        messages[row].reasoning += "".join(reasoning for _, reasoning in parts)
    # Of several endings, generations and pins of a message the last counts.
    for row, ending, facts in _rows_about(connection, by, value, "endings", "ending", "facts"):
        messages[row].ending = ending
        decoded = decode_value(facts, MessageFacts, f"the statistics of {messages[row].id}")
        messages[row].facts = decoded or MessageFacts()
    for row, generation in _rows_about(connection, by, value, "generations", "generation"):
        messages[row].generation = generation
    for row, pinned in _rows_about(connection, by, value, "message_pins", "pinned"):
        messages[row].pinned = bool(pinned)
    return messages


def _mend(messages: Iterable[Message]) -> None:
    """Replace damaged values in the rows of a chat, so that it can be shown."""
    ids: set[str] = set()
    last: str | None = None
    for message in messages:
        sound = message.parent is None or message.parent in ids
        if not sound:
            message.parent = last
        if message.role not in get_args(Role):
            sound, message.role = False, "assistant"
        if message.ending not in (None, *get_args(Ending)):
            sound, message.ending = False, "interrupted"
        if not sound:
            note_damage(f"the row of message {message.id}")
        ids.add(message.id)
        last = message.id


def _rows_about(
    connection: Connection, by: _Selector, value: str, table: str, *columns: str
) -> Iterable[tuple[Any, ...]]:
    """Return the message's row and `columns` of each row of a table about selected messages."""
    order = "t.message, t.number" if table == "pieces" else "t.row"
    values = ", ".join(f"t.{column}" for column in columns)
    return connection.execute(
        f"SELECT t.message, {values} FROM {table} t JOIN messages m ON m.row = t.message"  # noqa: S608
        f" WHERE m.{by} = ? ORDER BY {order}",
        (value,),
    )


def _chosen(connection: Connection, chat: str, messages: dict[int, Message]) -> Iterable[str]:
    """Return the chosen child of every message, by the last choice or addition."""
    parents = {message.id: message.parent for message in messages.values()}
    chosen: dict[str | None, str] = {}
    added = iter(messages.items())
    waiting = next(added, None)
    choices = [*_rows_about(connection, "chat", chat, "choices", "after"), (None, math.inf)]
    for row, after in choices:
        while waiting is not None and waiting[0] <= after:
            chosen[waiting[1].parent] = waiting[1].id
            waiting = next(added, None)
        step = None if row is None else messages[row].id
        while step is not None:
            chosen[parents[step]] = step
            step = parents[step]
    return chosen.values()


def _add_compactions(connection: Connection, chat: Chat) -> None:
    for (body,) in connection.execute(
        "SELECT body FROM compactions WHERE chat = ? ORDER BY row", (chat.id,)
    ):
        compaction = decode_value(body, CompactionRecord, f"a summary of chat {chat.id}")
        if compaction is not None:
            chat.add_compaction(compaction)
    for (undone,) in connection.execute(
        "SELECT u.compaction FROM undos u JOIN compactions c ON c.id = u.compaction"
        " WHERE c.chat = ? ORDER BY u.row",
        (chat.id,),
    ):
        chat.undo_compaction(undone)
