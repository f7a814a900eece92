"""Context managers for SQLite transactions, savepoints, snapshots and connections."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite3 import Connection


@contextmanager
def write_transaction(connection: Connection) -> Generator[None]:
    """Commit the statements in the block, or roll them back if it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has already ended it
            connection.execute("ROLLBACK")
        raise


@contextmanager
def savepoint(connection: Connection) -> Generator[None]:
    """Undo only the statements in the block if it raises; needs a transaction."""
    connection.execute("SAVEPOINT block")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO block")
            connection.execute("RELEASE block")
        raise
    connection.execute("RELEASE block")


@contextmanager
def snapshot(connection: Connection) -> Generator[None]:
    """Let all reads in the block see the same state of the database."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


@contextmanager
def closed_on_error(connection: Connection) -> Generator[Connection]:
    """Close the connection if the block raises."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
