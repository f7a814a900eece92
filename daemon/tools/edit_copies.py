"""Copies of what edits have replaced, on disk before the edit, so that it can be undone."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path, PurePath

import msgspec

from ingle.backends.base.own_folder import make_own_folder

from ..stores.atomic_file import write_atomically
from .project_folder import ProjectFolder
from .tool import ToolFailed, ToolOutcome

_KEPT_SECONDS = 30 * 86_400


class EditCopy(msgspec.Struct, frozen=True):
    """A file's content before an edit, None if there was none, and the digest of the new one."""

    folder: str
    path: str
    before: bytes | None
    after: str


class EditCopies:
    """The copies of one chat, by the id of the call."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / "edits"

    def keep(
        self, call_id: str, project: ProjectFolder, place: PurePath, change: FileChange
    ) -> None:
        """Store a copy durably; raises `ToolFailed`, and then the edit must not be made."""
        copy = EditCopy(str(project.root), str(place), change.before, digest(change.after))
        try:
            make_own_folder(self._folder)
            self._remove_old()
            write_atomically(self._path(call_id), msgspec.msgpack.encode(copy))
        except OSError as error:
            raise ToolFailed(
                f"Nothing was changed: no copy of {place} could be kept ({error.strerror})."
            ) from error

    def undo(self, call_id: str, project: ProjectFolder) -> ToolOutcome:
        """Put back what the call's edit replaced; raises `ToolFailed`."""
        try:
            content = self._path(call_id).read_bytes()
            copy = msgspec.msgpack.decode(content, type=EditCopy)
        except (OSError, msgspec.MsgspecError) as error:
            raise ToolFailed("There is no copy to undo this edit with.") from error
        if copy.folder != str(project.root):
            raise ToolFailed(f"The edit was made in {copy.folder}. Start the chat there.")
        place = project.locate_writable(copy.path)
        now = project.read_if_exists(place)
        if now == copy.before:
            return ToolOutcome(f"{place} is as it was before the edit.", f"{place} was unchanged")
        if now is None or digest(now) != copy.after:
            raise ToolFailed(f"{place} has changed since the edit, so it was left as it is.")
        if copy.before is None:
            project.remove(place)
        else:
            project.write(place, copy.before)
        with suppress(OSError):
            self._path(call_id).unlink()
        return ToolOutcome(f"The edit of {place} was undone.", f"undone: {place}")

    def _remove_old(self) -> None:
        limit = time.time() - _KEPT_SECONDS
        for path in self._folder.iterdir():
            if path.stat().st_mtime < limit:
                path.unlink()

    def _path(self, call_id: str) -> Path:
        name = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / name[:32]


class FileChange(msgspec.Struct, frozen=True):
    """The content of a file before and after; `before` is None for a new file."""

    before: bytes | None
    after: bytes


def digest(content: bytes) -> str:
    """Return the SHA-256 of a content, in hex."""
    return hashlib.sha256(content).hexdigest()
