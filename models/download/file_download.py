"""Download one file into a folder, from the first source that delivers it intact."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DiskFull, HashMismatch, ModelError, PullFailed, SourceUnavailable
from ..sources.download_source import RemoteFile, Source, Transfer
from ..sources.package_index_source import ARCHIVE_SUFFIX
from ..sources.partial_file import PARTIAL_SUFFIX, SCRATCH_PREFIX, PartialFile
from .pull_progress import PullReporter

# Bytes left free for other programs.
_MARGIN = 32 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that was checked and has its final name."""

    path: Path
    sha256: str
    source: str


@dataclass(frozen=True, slots=True)
class FileDownload:
    """Tries the sources in order; the caller holds the lock on `folder`.

    `name` is the model's; `check` raises `ModelError` for a file that must not be kept.
    """

    name: str
    folder: Path
    file: RemoteFile
    sources: Sequence[Source]
    reporter: PullReporter
    check: Callable[[Path], object]

    @property
    def _target(self) -> Path:
        return self.folder / self.file.name

    @property
    def _partial(self) -> Path:
        return self.folder / f"{self.file.name}{PARTIAL_SUFFIX}"

    def run(self) -> Fetched:
        """Fetch, verify and name the file.

        Raises `SourceUnavailable` or `HashMismatch` with one line a source, `DiskFull`,
        `PullCancelled`, `PullFailed`, and what `check` raises.
        """
        self._tidy()
        failures: list[PullFailed] = []
        for source in self.sources:
            self.reporter.check_cancelled()
            try:
                return self._from(source)
            except (SourceUnavailable, HashMismatch) as error:
                failures.append(error)
        raise self._failure(failures)

    def _tidy(self) -> None:
        """Remove what a killed process left, except for what it had fetched."""
        for path in self.folder.glob(f"{SCRATCH_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob("*.tmp"):
            path.unlink()
        if self._target.is_file():  # killed between naming the file and writing its manifest
            self._target.replace(self._partial)
            if self.file.sha256 is None:  # it may be another version, undetected
                self._partial.unlink()

    def _from(self, source: Source) -> Fetched:
        continued = self._partial.exists() and self._partial.stat().st_size > 0
        try:
            return self._attempt(source)
        except HashMismatch:
            if not continued:
                raise
        # The bytes from an earlier attempt may have been the wrong ones: this source is not to
        # blame before it has delivered all of them.
        return self._attempt(source)

    def _attempt(self, source: Source) -> Fetched:
        with PartialFile(self._partial) as partial:
            size = self.file.size
            if size is not None and partial.size > size:
                partial.restart()
            if size is None or partial.size < size:
                self._check_room(partial, source)
                self.reporter.status("downloading", source.label)
                try:
                    source.fetch(self._transfer(partial))
                except DiskFull:
                    partial.discard()
                    raise
            return self._finish(partial, source)

    def _finish(self, partial: PartialFile, source: Source) -> Fetched:
        self.reporter.status("verifying", source.label)
        digest = partial.sha256(self._verified)
        if self.file.sha256 not in (None, digest) or self.file.size not in (None, partial.size):
            partial.discard()
            raise HashMismatch(
                f"{source.label} sent a file that is not what it should be: its SHA-256 begins "
                f"with {digest[:12]}."
            )
        try:
            self.check(self._partial)
        except ModelError:
            partial.discard()
            raise
        partial.publish(self._target)
        for path in self.folder.glob(f"*{ARCHIVE_SUFFIX}*"):  # another source had begun with it
            path.unlink()
        return Fetched(self._target, digest, source.label)

    def _transfer(self, partial: PartialFile) -> Transfer:
        return Transfer(self.file, partial, self.reporter.advance, self.reporter.cancelled)

    def _verified(self, position: int) -> None:
        self.reporter.check_cancelled()
        self.reporter.advance(position, self.file.size)

    def _check_room(self, partial: PartialFile, source: Source) -> None:
        if self.file.size is not None:
            scratch = int(self.file.size * source.scratch_fraction)
            check_room(self.name, self.folder, self.file.size - partial.size + scratch)

    def _failure(self, failures: Sequence[PullFailed]) -> PullFailed:
        lines = "".join(f"\n- {error.message}" for error in failures)
        if any(isinstance(error, HashMismatch) for error in failures):
            return HashMismatch(
                f"No source sent the right file for {self.name}:{lines}",
                hint="Nothing was installed. If it happens again, the source may be tampered with.",
            )
        if len(failures) == 1 and failures[0].hint:
            return SourceUnavailable(
                f"{self.name} could not be fetched: {failures[0].message}", hint=failures[0].hint
            )
        kept = self._partial.exists() and self._partial.stat().st_size > 0
        return SourceUnavailable(
            f"{self.name} could not be fetched from any source:{lines}",
            hint="Check the connection and pull again"
            + ("; the download continues where it stopped." if kept else "."),
        )


def check_room(name: str, folder: Path, size: int) -> None:
    """Raise `DiskFull` if the disk cannot take `size` more bytes and a margin."""
    needed, free = size + _MARGIN, shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFull(
            f"There is not enough room for {name}: {needed / 1e6:,.0f} MB are needed in "
            f"{folder}, and {free / 1e6:,.0f} MB are free.",
            hint="Free some space, or set INGLE_HOME to a larger disk.",
        )
