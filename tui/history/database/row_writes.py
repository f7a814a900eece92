"""What is noted in the history: each function writes its rows over a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from .index_text import index_text

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ...chats.chat import Chat, ChatSettings
    from ...chats.compaction_record import CompactionRecord
    from ...chats.message import Ending, Message, MessageFacts


def storable(text: str) -> str:
    """`text` without halves of surrogate pairs, which no database can take."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable_json(value: object) -> str:
    """A value as a row keeps it."""
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
    """A chat with its settings, unless it is there; `source` names where it was imported from."""
    connection.execute(
        "INSERT OR IGNORE INTO chats(id, created, source) VALUES (?, ?, ?)", (id, created, source)
    )
    add_settings(connection, id, body)


def add_settings(connection: Connection, chat: str, body: str, known: str | None = None) -> None:
    """The chat's settings from now on; nothing where they are the same, or there is no chat.

    Where another program has changed them since they were `known`, only what is different from
    that is changed.
    """
    last = connection.execute(
        "SELECT body FROM settings WHERE chat = ? ORDER BY row DESC LIMIT 1", (chat,)
    ).fetchone()
    if last is not None and known not in (None, last[0]):
        body = _merged(last[0], body, msgspec.json.decode(known or "{}"))
    if last is None or last[0] != body:
        connection.execute(
            "INSERT INTO settings(chat, body) SELECT id, ? FROM chats WHERE id = ?", (body, chat)
        )


def _merged(last: str, body: str, known: dict[str, Any]) -> str:
    """The `last` settings with what `body` changes in those that were `known`."""
    said: dict[str, Any] = msgspec.json.decode(body)
    changed = {name: value for name, value in said.items() if known.get(name) != value}
    return storable_json(msgspec.json.decode(last) | changed)


class MessageNote(msgspec.Struct, frozen=True):
    """A message as it was when it was added; later changes are notes of their own."""

    chat: str
    id: str
    parent: str | None
    role: str
    created: float
    model: str
    content: str
    reasoning: str
    attachments: str | None
    indexed: str
    ending: Ending | None
    facts: str
    generation: str | None
    pinned: bool

    @classmethod
    def of(cls, chat: str, message: Message) -> MessageNote:
        """What there is to note of a message."""
        return cls(
            chat,
            message.id,
            message.parent,
            message.role,
            message.created,
            storable(message.model),
            storable(message.content),
            storable(message.reasoning),
            storable_json(message.attachments) if message.attachments else None,
            storable(message.text),
            message.ending,
            storable_json(message.facts),
            message.generation,
            message.pinned,
        )

    def write(self, connection: Connection, session: int | None) -> None:
        """Add its rows; `session` names the program that writes an open answer."""
        is_open = self.role == "assistant" and self.ending is None
        row = connection.execute(
            "INSERT INTO messages(id, chat, parent, role, created, model, content, reasoning,"
            " attachments, session) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.id,
                self.chat,
                self.parent,
                self.role,
                self.created,
                self.model,
                self.content,
                self.reasoning,
                self.attachments,
                session if is_open else None,
            ),
        ).lastrowid
        if not is_open:
            _index(connection, row, self.indexed)
        if self.ending is not None:
            connection.execute(
                "INSERT INTO endings(message, ending, facts, pieces) VALUES (?, ?, ?, 0)",
                (row, self.ending, self.facts),
            )
        if self.generation is not None and session is not None:
            add_generation(connection, self.id, self.generation, session)
        if self.pinned:
            add_message_pin(connection, self.id, True)


def add_piece(connection: Connection, message: str, text: str, reasoning: str) -> None:
    """An answer grew; nothing where it was deleted meanwhile."""
    connection.execute(
        "INSERT INTO pieces(message, number, text, reasoning) SELECT row, 1 + ifnull("
        "(SELECT max(number) FROM pieces WHERE message = row), 0), ?, ? FROM messages WHERE id = ?",
        (text, reasoning, message),
    )


def add_generation(connection: Connection, message: str, generation: str, session: int) -> None:
    """An answer's name in the daemon, and the program that follows it."""
    connection.execute(
        "INSERT INTO generations(message, generation, session)"
        " SELECT row, ?, ? FROM messages WHERE id = ?",
        (generation, session, message),
    )


def add_ending(connection: Connection, message: str, ending: Ending, facts: str) -> None:
    """An answer is complete; now it can be found."""
    found = connection.execute(
        "SELECT row, (SELECT ifnull(max(number), 0) FROM pieces WHERE message = row)"
        " FROM messages WHERE id = ?",
        (message,),
    ).fetchone()
    if found is None:
        return
    row, pieces = found
    _unindex(connection, row)
    connection.execute(
        "INSERT INTO endings(message, ending, facts, pieces) VALUES (?, ?, ?, ?)",
        (row, ending, facts, pieces),
    )
    index_message(connection, row)


def add_choice(connection: Connection, message: str) -> None:
    """The branch of a message is the one on the screen."""
    connection.execute(
        "INSERT INTO choices(message, after) SELECT row, (SELECT max(row) FROM messages)"
        " FROM messages WHERE id = ?",
        (message,),
    )


def add_message_pin(connection: Connection, message: str, pinned: bool) -> None:
    """A message is to be kept word for word, or no longer."""
    connection.execute(
        "INSERT INTO message_pins(message, pinned) SELECT row, ? FROM messages WHERE id = ?",
        (pinned, message),
    )


def add_compaction(connection: Connection, chat: str, compaction: CompactionRecord) -> None:
    """A summary stands for what is before it."""
    connection.execute(
        "INSERT INTO compactions(id, chat, at, body) VALUES (?, ?, ?, ?)",
        (compaction.id, chat, compaction.at, storable_json(compaction)),
    )


def add_undo(connection: Connection, compaction: str) -> None:
    """The originals are sent again."""
    connection.execute("INSERT INTO undos(compaction) VALUES (?)", (compaction,))


def save_draft(connection: Connection, chat: str, text: str, changed: float) -> None:
    """Keep what stands in the composer; an empty draft is none."""
    if text:
        connection.execute(
            "INSERT INTO drafts(chat, text, changed) VALUES (?, ?, ?)"
            " ON CONFLICT(chat) DO UPDATE SET text = excluded.text, changed = excluded.changed",
            (chat, text, changed),
        )
    else:
        connection.execute("DELETE FROM drafts WHERE chat = ?", (chat,))


def remove_message(connection: Connection, message: str) -> None:
    """Delete a message and all behind it, with the summaries that tell of them."""
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


def encode_settings(settings: ChatSettings) -> str:
    """The settings as a row keeps them."""
    return storable_json(settings)


def chat_head(chat: Chat) -> tuple[str, float, str]:
    """Name, beginning and settings of a chat."""
    return chat.id, chat.created, encode_settings(chat.settings)


def encode_facts(facts: MessageFacts) -> str:
    """The facts as a row keeps them."""
    return storable_json(facts)


def index_message(connection: Connection, row: int) -> None:
    """Have a message found by its words; it must not be in the index."""
    _index(connection, row, _indexed_text(connection, row))


def _delete_messages(connection: Connection, rows: list[int]) -> None:
    for row in rows:
        _unindex(connection, row)
    # What was added later first: nothing may stand behind a message that goes.
    rows.sort(reverse=True)
    connection.executemany("DELETE FROM messages WHERE row = ?", [(row,) for row in rows])
    # What was deleted is overwritten in the tables at once; in the index, only when it is merged.
    connection.execute("INSERT OR IGNORE INTO chores(name) VALUES ('wipe')")


def _index(connection: Connection, row: int | None, text: str) -> None:
    connection.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row, index_text(text)))


def _unindex(connection: Connection, row: int) -> None:
    """Take a message out of the index, which needs the text that it was indexed with."""
    role = connection.execute("SELECT role FROM messages WHERE row = ?", (row,)).fetchone()[0]
    ended = connection.execute("SELECT 1 FROM endings WHERE message = ?", (row,)).fetchone()
    if role == "user" or ended is not None:
        connection.execute(
            "INSERT INTO words(words, rowid, text) VALUES ('delete', ?, ?)",
            (row, index_text(_indexed_text(connection, row))),
        )


def _indexed_text(connection: Connection, row: int) -> str:
    """The text of a message up to its last ending, with its attachments."""
    from ...chats.message import Attachment, Message

    content, attachments = connection.execute(
        "SELECT content, attachments FROM messages WHERE row = ?", (row,)
    ).fetchone()
    pieces = connection.execute(
        "SELECT text FROM pieces WHERE message = ?1 AND number <= ifnull((SELECT pieces FROM"
        " endings WHERE message = ?1 ORDER BY row DESC LIMIT 1), 0) ORDER BY number",
        (row,),
    )
    text = content + "".join(piece for (piece,) in pieces)
    if attachments is None:
        return text
    parsed = msgspec.json.decode(attachments, type=tuple[Attachment, ...])
    return Message(role="user", content=text, attachments=parsed).text
