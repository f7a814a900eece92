"""What connecting a program changes in its files: planned, shown, written, and taken back."""

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
    """A file that cannot be written; nothing of it has changed."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.message = f"{path} cannot be written: {error.strerror}."
        self.hint = "It is as it was. Make room, or get the right to write; `--print` shows all."
        super().__init__(self.message)


@dataclass(frozen=True)
class SettingsChange:
    """One file before and after; None where there is none."""

    path: Path
    before: str | None
    after: str | None
    settings: SettingsFile | None = None

    @property
    def is_one(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after

    def diff(self) -> list[str]:
        """The lines of a unified diff."""
        before = (self.before or "").splitlines()
        after = (self.after or "").splitlines()
        old = str(self.path) if self.before is not None else os.devnull
        new = str(self.path) if self.after is not None else os.devnull
        return list(difflib.unified_diff(before, after, old, new, lineterm=""))


def plan(files: Sequence[SettingsFile]) -> list[SettingsChange]:
    """What has to change for the files to say what they should; raises `CannotEdit`."""
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
    """What has to change for the files to say what they said before; raises `CannotEdit`.

    `files` tell in what form each is written. Where nothing else has changed since, a file gets its
    bytes back; else only our settings go.
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
    """Takes out what bears ingle's name, or is as ingle would write it now."""
    now = file.read()
    try:
        after = now if now is None else file.restored(now, file.ours(now))
    except CannotEdit as error:
        raise CannotEdit(f"{file.path}: {error.message}") from None
    return SettingsChange(file.path, now, after, file)


def write(
    changes: Sequence[SettingsChange], record: ChangeRecord, client: str, target: ConnectTarget
) -> list[Path]:
    """Write what changes for a program that gets `target`; returns the copies of what was there.

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
            # Kept first: what is written can then be taken back whatever happens in between.
            record.add(client, change.settings, change.before, change.after, target)
            write_atomically(change.path, change.after.encode())
        except OSError as error:
            raise ChangeFailed(change.path, error) from error
    return copies


def take_back(changes: Sequence[SettingsChange], record: ChangeRecord, client: str) -> list[Path]:
    """Write what `plan_removal` found, remove files that were made; returns the copies.

    Raises `ChangeFailed`.
    """
    copies: list[Path] = []
    for change in changes:
        try:
            if change.is_one:
                # What only ingle has written needs no copy.
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
    """A copy of a file as it is now, beside it."""
    if change.before is None:
        return None
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    target = Path(os.path.realpath(change.path))
    copy = target.with_name(f"{target.name}.ingle-backup-{stamp}")
    mode = target.stat().st_mode & 0o777
    write_atomically(copy, change.before.encode(), mode=mode)
    return copy
