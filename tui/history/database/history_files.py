"""The files of the chat database in their folder: names, modes, backups."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PLAIN = "history.db"
ENCRYPTED = "history.sqlcipher.db"
BACKUPS = "history.backup."
BACKUP = f"{BACKUPS}db"
ENCRYPTED_BACKUP = f"{BACKUPS}sqlcipher.db"
GENERATIONS = 3
"""How many daily backups are kept."""


def original(folder: Path, passphrase: str | None) -> Path:
    """Return the path of the database with this passphrase."""
    return folder / (PLAIN if passphrase is None else ENCRYPTED)


def copy_of(folder: Path, passphrase: str | None) -> Path:
    """Return the path of the newest backup of chats with this passphrase."""
    return folder / (BACKUP if passphrase is None else ENCRYPTED_BACKUP)


def copies_of(folder: Path, passphrase: str | None) -> list[Path]:
    """Return the complete backups of chats with this passphrase, the newest first."""
    newest = copy_of(folder, passphrase)
    older = [
        path
        for path in folder.glob(f"{newest.name}.*")
        if path.suffix.removeprefix(".").isdigit() or path.suffix.startswith(".kept-")
    ]
    found = [path for path in (newest, *older) if path.exists()]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def generation(newest: Path, number: int) -> Path:
    """Return the path of an older backup; `number` counts from 1."""
    return newest.with_name(f"{newest.name}.{number}")


def recovered(folder: Path, passphrase: str | None) -> Path:
    """Return the path of a recovered database that is complete, but not in its place yet."""
    return folder / f"{BACKUPS}recovered.{original(folder, passphrase).name}"


def is_lost(folder: Path, passphrase: str | None) -> bool:
    """Return whether the database is missing or empty although there is a backup of it."""
    path = original(folder, passphrase)
    with suppress(FileNotFoundError):
        if path.stat().st_size > 0:
            return False
    return bool(copies_of(folder, passphrase))


def sync_names(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system can; raises `OSError`."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_private(path: Path) -> None:
    """Create an empty file with mode 0600; one that exists gets this mode, unless it is a link.

    SQLite would apply the umask; its companion files inherit this mode. An existing file must not
    be opened: closing it would release the locks of all this program's connections to it, and the
    next program that leaves would delete the log under them.
    """
    try:
        path.touch(0o600, exist_ok=False)
    except FileExistsError:
        if not path.is_symlink() and path.stat().st_mode & 0o077:
            path.chmod(0o600)
