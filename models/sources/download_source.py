"""The interface of a source of model files, and the transfer of one file from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..errors import PullCancelled
from .partial_file import PartialFile

if TYPE_CHECKING:
    from .ranged_file import RangedFile

OnProgress = Callable[[int, int | None], None]
"""Called with the bytes of the file that are here, and how many it has where that is known."""

Cancelled = Callable[[], bool]
"""Called often; True ends the download at the next opportunity."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that can be fetched; `size` in bytes and `sha256` where they are known beforehand.

    A file with a `sha256` is the same wherever it comes from, so any source may continue it.
    """

    name: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """The file that a source fetches, the partial file that receives it, and its callbacks."""

    file: RemoteFile
    partial: PartialFile
    on_progress: OnProgress
    cancelled: Cancelled

    def append(self, data: bytes) -> None:
        """Write the next bytes; raises `PullCancelled`, `DiskFull` or `DiskUnusable`."""
        raise_if_cancelled(self.cancelled)
        self.partial.append(data)

    def report(self) -> None:
        """Report how much of the file is here."""
        self.on_progress(self.partial.size, self.file.size)

    def report_arriving(self, count: int) -> None:
        """Report `count` bytes that are not in the file yet; raises `PullCancelled`."""
        raise_if_cancelled(self.cancelled)
        have, total = self.partial.size + count, self.file.size
        self.on_progress(have if total is None else min(have, total), total)


class Source(Protocol):
    """One place that has one file."""

    @property
    def label(self) -> str:
        """The name of the place for people."""
        ...

    scratch_fraction: float
    """Room the source needs beside the file while it works, as a share of the file's size."""

    def ranges(self) -> AbstractContextManager[RangedFile] | None:
        """The file, of which only what is read is fetched; None if it comes as a whole only.

        Entering it raises `SourceUnavailable` if the place does not send parts.
        """
        ...

    def fetch(self, transfer: Transfer) -> None:
        """Bring the file to its end, from where its partial file stands if that can be continued.

        Whether the bytes are the right ones is for the caller to check. Raises `SourceUnavailable`
        where the place does not answer, lacks the file or stops in the middle (what arrived stays
        in the partial file), `PullCancelled`, and `DiskFull`.
        """
        ...


def raise_if_cancelled(cancelled: Cancelled) -> None:
    """Raise `PullCancelled` if the download was cancelled."""
    if cancelled():
        raise PullCancelled("The download was cancelled.", hint="Pull again to continue it.")
