"""Plans, shows, writes and undoes changes to a program's settings files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..cli.command_errors import CommandError
from ..config_editing.document_path import CannotEdit
from ..stores.atomic_file import write_atomically
from .change_record import ChangeRecord, digest
from .connect_target import ConnectTarget
from .settings_file import SettingsFile


@dataclass(frozen=True)
class SettingsChange:
    """One file before and after; None if it does not exist."""

    path: Path
    before: str | None
    after: str | None
    settings: SettingsFile

    @property
    def is_one(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after

    @property
    def keeps_other(self) -> bool:
        """Whether a value that the user has chosen stays in place of ingle's."""
        return self.settings.keeps_other(self.after or "")

    def diff(self) -> list[str]:
        """Return the lines of a unified diff."""
        before = (self.before or "").splitlines()
        after = (self.after or "").splitlines()
        old = str(self.path) if self.before is not None else os.devnull
        new = str(self.path) if self.after is not None else os.devnull
        return list(difflib.unified_diff(before, after, old, new, lineterm=""))


def plan(files: Sequence[SettingsFile]) -> list[SettingsChange]:
    """Return the changes that bring the files to the wanted settings; raises `CannotEdit`."""
    changes: list[SettingsChange] = []
    for file in files:
        before = file.read()
        with _naming(file):
            after = file.edited(before or "")
        changes.append(SettingsChange(file.path, before, after, file))
    return changes


def plan_removal(
    record: ChangeRecord, client: str, files: Sequence[SettingsFile]
) -> list[SettingsChange]:
    """Return the changes that restore the previous settings; raises `CannotEdit`.

    `files` give the format of each file. A file that nothing else has changed since gets its old
    bytes back; else only our settings are removed. Without a record these are the settings that
    bear ingle's name, or equal what ingle would write now.
    """
    by_path = {str(file.path): file for file in files}
    recorded = record.files(client)
    changes: list[SettingsChange] = []
    for path in recorded or by_path:
        old = recorded.get(path)
        file = by_path.get(path) or SettingsFile(Path(path), old.form if old else "", [])
        now = file.read()
        if now is None:
            after = None
        elif old is not None and digest(now) == old.written:
            after = old.original
        else:
            with _naming(file):
                after = file.restored(now, old.places() if old else file.ours(now))
        changes.append(SettingsChange(file.path, now, after, file))
    return changes


@contextmanager
def _naming(file: SettingsFile) -> Generator[None]:
    """Name the file in the message of `CannotEdit`."""
    try:
        yield
    except CannotEdit as error:
        raise CannotEdit(f"{file.path}: {error}") from None


def write(
    changes: Sequence[SettingsChange], record: ChangeRecord, client: str, target: ConnectTarget
) -> list[Path]:
    """Write the changes for a program that gets `target`; return the paths of backups.

    Raises `CommandError`.
    """
    backups: list[Path] = []
    for change in changes:
        assert change.after is not None
        if not change.is_one:
            continue
        with _failing(change):
            backups += _back_up(change)
            # Recorded first, so that a change can be undone even if a crash follows.
            record.add(client, change.settings, change.before, change.after, target)
            write_atomically(change.path, change.after.encode())
    return backups


def take_back(changes: Sequence[SettingsChange], record: ChangeRecord, client: str) -> list[Path]:
    """Write the changes of `plan_removal`, delete files that ingle created; return the backups.

    Raises `CommandError`.
    """
    backups: list[Path] = []
    for change in changes:
        with _failing(change):
            if change.is_one and change.after is None:
                # What only ingle has written needs no backup.
                Path(os.path.realpath(change.path)).unlink()
            elif change.is_one:
                backups += _back_up(change)
                write_atomically(change.path, (change.after or "").encode())
            record.forget(client, change.path)
    return backups


@contextmanager
def _failing(change: SettingsChange) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"{change.path} cannot be written: {error.strerror}.",
            "It is unchanged. Free space or change the permissions; `--print` shows all settings.",
        ) from error


def _back_up(change: SettingsChange) -> list[Path]:
    """Write a backup of an existing file beside it; return its path."""
    if change.before is None:
        return []
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    target = Path(os.path.realpath(change.path))
    copy = target.with_name(f"{target.name}.ingle-backup-{stamp}")
    write_atomically(copy, change.before.encode(), mode=target.stat().st_mode & 0o777)
    return [copy]
