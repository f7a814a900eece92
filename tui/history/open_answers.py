"""Ownership and stored state of answers that are still being written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from ..chats.message import Ending, MessageFacts
from .database.row_reads import living_sessions

if TYPE_CHECKING:
    from sqlite3 import Connection


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of an answer; `ending` is None while it is being written."""

    content: str
    reasoning: str
    generation: str | None
    ending: Ending | None
    facts: MessageFacts


def claim_answer(connection: Connection, message: str, session: int) -> bool:
    """Claim an answer for this program if its owner has died; return whether this program owns it.

    Needs a write transaction, so that only one program succeeds.
    """
    found = connection.execute(
        "SELECT m.row, g.generation, ifnull(g.session, m.session),"
        " EXISTS (SELECT 1 FROM endings WHERE message = m.row)"
        " FROM messages m LEFT JOIN generations g ON g.row ="
        " (SELECT max(row) FROM generations WHERE message = m.row) WHERE m.id = ?",
        (message,),
    ).fetchone()
    if found is None or found[3]:
        return False
    row, generation, owner, _ = found
    if owner == session:
        return True
    others = set[int]() if owner is None or _is_own(connection, owner) else {int(owner)}
    if living_sessions(connection, others):
        return False
    connection.execute(
        "INSERT INTO generations(message, generation, session) VALUES (?, ?, ?)",
        (row, generation, session),
    )
    return True


def _is_own(connection: Connection, session: int) -> bool:
    """Return whether the session belongs to this program: each writer connection has its own."""
    found = connection.execute("SELECT pid FROM sessions WHERE row = ?", (session,)).fetchone()
    return found is not None and found[0] == os.getpid()


def read_answer(connection: Connection, message: str) -> KeptAnswer | None:
    """Return the present state of an answer, None if it was deleted."""
    connection.execute("BEGIN")
    try:
        found = connection.execute(
            "SELECT row, content, reasoning FROM messages WHERE id = ?", (message,)
        ).fetchone()
        if found is None:
            return None
        row, content, reasoning = found
        pieces = connection.execute(
            "SELECT text, reasoning FROM pieces WHERE message = ? ORDER BY number", (row,)
        ).fetchall()
        ended = connection.execute(
            "SELECT ending, facts FROM endings WHERE message = ? ORDER BY row DESC LIMIT 1", (row,)
        ).fetchone()
        named = connection.execute(
            "SELECT generation FROM generations WHERE message = ? ORDER BY row DESC LIMIT 1", (row,)
        ).fetchone()
    finally:
        connection.execute("COMMIT")
    facts = MessageFacts() if ended is None else msgspec.json.decode(ended[1], type=MessageFacts)
    return KeptAnswer(
        content=content + "".join(text for text, _ in pieces),
        reasoning=reasoning + "".join(thought for _, thought in pieces),
        generation=None if named is None else named[0],
        ending=None if ended is None else ended[0],
        facts=facts,
    )
