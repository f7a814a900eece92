"""The full-text index over messages: adding, removing, repairing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...chats.message import Attachment, Message
from .damaged_values import decode_value
from .database import damage, database_errors, is_damage

if TYPE_CHECKING:
    from sqlite3 import Connection


# Thai to Lao, Myanmar, Khmer, kana, Han, Hangul, and Han beyond the first plane. Compiled when a
# text needs it, which takes milliseconds of the chat's start.
_UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Colour codes in text pasted from a terminal, which would stick to the words.
_SEQUENCE = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]")


def index_text(text: str) -> str:
    """Return `text` with spaces around each character of scripts without word spaces.

    Each such character is thus a word, and any run of them is found as a phrase. Removing from the
    index requires the same text as adding: a change here needs a migration.
    """
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return text if text.isascii() else re.sub(_UNSPACED, r" \g<0> ", text)


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return re.match(_UNSPACED, character) is not None


def repair_index(connection: Connection) -> None:
    """Rebuild the full-text index if only it is damaged; raises damage of the chats themselves.

    Needs a write transaction.
    """
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok" and "fts5" not in found:
        raise damage(found)
    try:
        connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
    except database_errors() as error:
        if not is_damage(error):
            raise
        index_again(connection)


def index_again(connection: Connection) -> None:
    connection.execute("INSERT INTO words(words) VALUES ('delete-all')")
    rows = connection.execute(
        "SELECT row FROM messages WHERE role = 'user'"
        " OR EXISTS (SELECT 1 FROM endings WHERE message = messages.row)"
    ).fetchall()
    for (row,) in rows:
        index_message(connection, row)


def index_message(connection: Connection, row: int | None) -> None:
    """Add a message to the full-text index; it must not be in it yet."""
    text = index_text(whole_text(connection, row, as_indexed=True))
    connection.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row, text))


def unindex_message(connection: Connection, row: int) -> None:
    """Remove a message from the index, which needs the text that was indexed."""
    role = connection.execute("SELECT role FROM messages WHERE row = ?", (row,)).fetchone()[0]
    ended = connection.execute("SELECT 1 FROM endings WHERE message = ?", (row,)).fetchone()
    if role == "user" or ended is not None:
        text = index_text(whole_text(connection, row, as_indexed=True))
        connection.execute(
            "INSERT INTO words(words, rowid, text) VALUES ('delete', ?, ?)", (row, text)
        )


def whole_text(connection: Connection, row: int | None, *, as_indexed: bool = False) -> str:
    """Return a message's whole text, preceded by the text of its attachments.

    With `as_indexed` only up to its last ending: text added later is not in the index yet.
    """
    content, attachments = connection.execute(
        "SELECT content, attachments FROM messages WHERE row = ?", (row,)
    ).fetchone()
    pieces = connection.execute(
        "SELECT text FROM pieces WHERE message = ?1 AND (NOT ?2 OR number <= ifnull((SELECT pieces"
        " FROM endings WHERE message = ?1 ORDER BY row DESC LIMIT 1), 0)) ORDER BY number",
        (row, as_indexed),
    )
    content += "".join(piece for (piece,) in pieces)
    if attachments is None:
        return content
    parsed = decode_value(attachments, tuple[Attachment, ...], "the attachments of a message")
    return Message(role="user", content=content, attachments=parsed or ()).text
