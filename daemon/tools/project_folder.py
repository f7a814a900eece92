"""The client's folder: no path, link or race leads out of it."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from ingle.models.failpoints import failpoint

from .editor_files import EditorFiles
from .tool import ToolFailed

MOST_BYTES = 4 * 2**20
"""Of a file that is read or edited."""
_NOT_FOLLOWED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _NOT_FOLLOWED | getattr(os, "O_DIRECTORY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_BY_DESCRIPTOR = sys.platform != "win32"


class ProjectFolder:
    """Files below one folder, named relative to it or by an absolute path inside.

    A regular file is read and replaced through the editor, where there is one.
    """

    def __init__(self, root: Path, editor: EditorFiles | None = None) -> None:
        """`root` exists; raises OSError."""
        self.root = root.resolve(strict=True)
        self._editor = editor

    @property
    def holds_home(self) -> bool:
        """Whether it is the home folder or one above, where keys and letters are."""
        return Path.home().resolve().is_relative_to(self.root)

    def locate(self, name: str) -> PurePath:
        """Return the path relative to the folder, links resolved; raises `ToolFailed`."""
        if "\0" in name or not name.isprintable() or not name:
            raise ToolFailed(f"{name!r} is not the name of a file.")
        try:
            place = (self.root / name).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a long name
            raise ToolFailed(f"{name!r} is not the name of a file.") from error
        if not place.is_relative_to(self.root):
            raise ToolFailed(
                f"{name!r} is outside of the folder {self.root}. Only files in it can be used."
            )
        return place.relative_to(self.root)

    def locate_writable(self, name: str) -> PurePath:
        """Return the path of a file that may be changed; raises `ToolFailed`."""
        place = self.locate(name)
        # What git keeps there names programs that git runs.
        if any(part.lower() == ".git" for part in place.parts):
            raise ToolFailed("Files in .git cannot be edited.")
        if place.name == "":
            raise ToolFailed(f"{name!r} is a folder.")
        return place

    def read(self, place: PurePath) -> bytes:
        """Return the content of a regular file; raises `ToolFailed`."""
        content = self._read(place)
        shown = None if self._editor is None else self._editor.read(self.root / place)
        return content if shown is None else shown

    def _read(self, place: PurePath) -> bytes:
        with self._parent(place) as parent:
            try:
                fd = os.open(
                    *self._named(place), os.O_RDONLY | _NOT_FOLLOWED | _NO_WAIT, dir_fd=parent
                )
            except OSError as error:
                raise _failed(place, error) from error
            with os.fdopen(fd, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise ToolFailed(f"{place} is not a regular file.")
                if found.st_size > MOST_BYTES:
                    raise ToolFailed(
                        f"{place} has {found.st_size} bytes, more than {MOST_BYTES}. Search in it."
                    )
                return file.read(MOST_BYTES)

    def read_if_exists(self, place: PurePath) -> bytes | None:
        """Return the content, None if there is no such file; raises `ToolFailed`."""
        try:
            return self.read(place)
        except ToolFailed as failed:
            if isinstance(failed.__cause__, FileNotFoundError):
                return None
            raise

    def write(self, place: PurePath, content: bytes) -> None:
        """Replace a file in one step, or create it with its folders; raises `ToolFailed`."""
        editor = self._editor
        if editor and self._is_file(place) and editor.write(self.root / place, content):
            return
        with self._parent(place, create=True) as parent:
            temporary = f".{place.name[:40]}.{secrets.token_hex(6)}"
            if not _BY_DESCRIPTOR:
                temporary = str(self.root / place.parent / temporary)
            try:
                self._write(place, temporary, content, parent)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise _failed(place, error) from error

    def _is_file(self, place: PurePath) -> bool:
        with suppress(ToolFailed):
            self._read(place)
            return True
        return False

    def remove(self, place: PurePath) -> None:
        """Delete a file; raises `ToolFailed`."""
        with self._parent(place) as parent:
            try:
                os.unlink(*self._named(place), dir_fd=parent)
            except OSError as error:
                raise _failed(place, error) from error

    def _write(self, place: PurePath, temporary: str, content: bytes, parent: int | None) -> None:
        (name,) = self._named(place)
        mode = 0o644
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            mode = stat.S_IMODE(found.st_mode) & 0o777
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED | getattr(os, "O_BINARY", 0)
        fd = os.open(temporary, flags, 0o600, dir_fd=parent)
        with os.fdopen(fd, "wb") as file:
            failpoint("atomic.write")
            file.write(content)
            file.flush()
            if _BY_DESCRIPTOR:
                os.fchmod(fd, mode)
            os.fsync(fd)
        failpoint("atomic.rename")
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        if parent is not None:
            os.fsync(parent)

    def _named(self, place: PurePath) -> tuple[str]:
        """Return the name to use with the parent's descriptor, where the system has these."""
        return (place.name if _BY_DESCRIPTOR else str(self.root / place),)

    @contextmanager
    def _parent(self, place: PurePath, *, create: bool = False) -> Generator[int | None]:
        """Open the file's folder step by step, since a part may have become a link meanwhile."""
        if not _BY_DESCRIPTOR:
            if create:
                (self.root / place).parent.mkdir(parents=True, exist_ok=True)
            yield None
            return
        fd = -1
        try:
            fd = os.open(self.root, _FOLDER)
            for part in place.parent.parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                below = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise _failed(place, error) from error
        try:
            yield fd
        finally:
            os.close(fd)


def _failed(place: PurePath, error: OSError) -> ToolFailed:
    if isinstance(error, FileNotFoundError):
        failed = ToolFailed(f"There is no file {place}. List the files to see their names.")
    elif isinstance(error, IsADirectoryError):
        failed = ToolFailed(f"{place} is a folder. List its files.")
    else:
        failed = ToolFailed(f"{place} cannot be used: {error.strerror or error}.")
    failed.__cause__ = error
    return failed
