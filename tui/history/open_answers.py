"""Claims answers that are still being written, each for one running program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from sqlite3 import Connection

_OPEN = (
    "SELECT m.row, m.chat, m.id, g.generation, ifnull(g.session, m.session)"
    " FROM messages m LEFT JOIN generations g ON g.row ="
    " (SELECT max(row) FROM generations WHERE message = m.row)"
    " WHERE NOT EXISTS (SELECT 1 FROM endings WHERE message = m.row)"
)


class UnfinishedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose program has ended; `generation` is its id in the daemon, if known."""

    chat: str
    message: str
    generation: str | None


def claim_unfinished(connection: Connection, session: int) -> list[UnfinishedAnswer]:
    """Claim answers that ended programs left open; this session now follows them.

    Needs a write transaction, so that two chats started at once never claim the same answer.
    """
    rows = connection.execute(
        f"{_OPEN} AND m.session IS NOT NULL AND m.role = 'assistant' ORDER BY m.row"
    ).fetchall()
    alive = _living_sessions(connection, {row[4] for row in rows} - {session}) | {session}
    left = [row for row in rows if row[4] not in alive]
    for row in left:
        _claim(connection, row, session)
    return [
        UnfinishedAnswer(chat=chat, message=message, generation=generation)
        for _, chat, message, generation, _ in left
    ]


def claim_answer(connection: Connection, message: str, session: int) -> bool:
    """Claim an answer for this program if its owner has died; return whether this program owns it.

    Needs a write transaction, so that only one program succeeds.
    """
    row = connection.execute(f"{_OPEN} AND m.id = ?", (message,)).fetchone()
    if row is None:
        return False
    owner = row[4]
    if owner == session:
        return True
    others = set[int]() if owner is None or _is_own(connection, owner) else {int(owner)}
    if _living_sessions(connection, others):
        return False
    _claim(connection, row, session)
    return True


def _claim(connection: Connection, row: tuple[Any, ...], session: int) -> None:
    """Make `session` the owner of an answer, given as a row of `_OPEN`."""
    connection.execute(
        "INSERT INTO generations(message, generation, session) VALUES (?, ?, ?)",
        (row[0], row[3], session),
    )


def _is_own(connection: Connection, session: int) -> bool:
    """Return whether the session belongs to this program: each writer connection has its own."""
    found = connection.execute("SELECT pid FROM sessions WHERE row = ?", (session,)).fetchone()
    return found is not None and found[0] == os.getpid()


def _living_sessions(connection: Connection, sessions: set[int]) -> set[int]:
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
