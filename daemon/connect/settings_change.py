"""Plans, shows, writes and undoes changes to a program's settings files."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..config_editing.document_path import CannotEdit
from ..stores.atomic_file import write_atomically
from .change_record import ChangeRecord, digest
from .connect_target import ConnectTarget
from .settings_file import SettingsFile


class ChangeFailed(Exception):
    """A file cannot be written; it is unchanged."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.message = f"{path} cannot be written: {error.strerror}."
        self.hint = (
            "It is unchanged. Free space or change the permissions; `--print` shows all settings."
        )
        super().__init__(self.message)


@dataclass(frozen=True)
class SettingsChange:
    """One file before and after; None if it does not exist."""

    path: Path
    before: str | None
    after: str | None
    settings: SettingsFile | None = None

    @property
    def is_one(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after

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
        try:
            after = file.edited(before or "")
        except CannotEdit as error:
            raise CannotEdit(f"{file.path}: {error.message}") from None
        changes.append(SettingsChange(file.path, before, after, file))
    return changes


def plan_removal(
    record: ChangeRecord, client: str, files: Sequence[SettingsFile]
) -> list[SettingsChange]:
    """Return the changes that restore the previous settings; raises `CannotEdit`.

    `files` give the format of each file. A file that nothing else has changed since gets its old
    bytes back; else only our settings are removed.
    """
    if not record.files(client):
        return [_removal_unrecorded(file) for file in files]
    changes: list[SettingsChange] = []
    forms = {str(file.path): file for file in files}
    for path, recorded in record.files(client).items():
        file = forms.get(path) or SettingsFile(Path(path), recorded.form, [])
        now = file.read()
        if now is None:
            changes.append(SettingsChange(file.path, None, None, file))
            continue
        if digest(now) == recorded.written:
            after = recorded.original
        else:
            try:
                after = file.restored(now, recorded.places())
            except CannotEdit as error:
                raise CannotEdit(f"{file.path}: {error.message}") from None
        changes.append(SettingsChange(file.path, now, after, file))
    return changes


def _removal_unrecorded(file: SettingsFile) -> SettingsChange:
    """Remove settings that bear ingle's name, or equal what ingle would write now."""
    now = file.read()
    try:
        after = now if now is None else file.restored(now, file.ours(now))
    except CannotEdit as error:
        raise CannotEdit(f"{file.path}: {error.message}") from None
    return SettingsChange(file.path, now, after, file)


def write(
    changes: Sequence[SettingsChange], record: ChangeRecord, client: str, target: ConnectTarget
) -> list[Path]:
    """Write the changes for a program that gets `target`; return the paths of backups.

    Raises `ChangeFailed`.
    """
    copies: list[Path] = []
    for change in changes:
        assert change.settings is not None
        assert change.after is not None
        if not change.is_one:
            continue
        try:
            copy = _copy(change)
            copies += [copy] if copy is not None else []
            # Recorded first, so that a change can be undone even if a crash follows.
            record.add(client, change.settings, change.before, change.after, target)
            write_atomically(change.path, change.after.encode())
        except OSError as error:
            raise ChangeFailed(change.path, error) from error
    return copies


def take_back(changes: Sequence[SettingsChange], record: ChangeRecord, client: str) -> list[Path]:
    """Write what `plan_removal` found, delete files that were created; return the paths of backups.

    Raises `ChangeFailed`.
    """
    copies: list[Path] = []
    for change in changes:
        try:
            if change.is_one:
                # What only ingle has written needs no backup.
                copy = _copy(change) if change.after is not None else None
                copies += [copy] if copy is not None else []
                if change.after is None:
                    Path(os.path.realpath(change.path)).unlink()
                else:
                    write_atomically(change.path, change.after.encode())
            record.forget(client, change.path)
        except OSError as error:
            raise ChangeFailed(change.path, error) from error
    return copies


def _copy(change: SettingsChange) -> Path | None:
    """Write a backup of a file beside it."""
    if change.before is None:
        return None
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    target = Path(os.path.realpath(change.path))
    copy = target.with_name(f"{target.name}.ingle-backup-{stamp}")
    mode = target.stat().st_mode & 0o777
    write_atomically(copy, change.before.encode(), mode=mode)
    return copy
