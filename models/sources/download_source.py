"""What the store asks of a place that has model files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..errors import PullCancelled
from .partial_file import PartialFile

OnProgress = Callable[[int, int | None], None]
"""Called with the bytes of the file that are here, and how many it has where that is known."""

Cancelled = Callable[[], bool]
"""Asked often; True ends the download at the next opportunity."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that can be fetched; `size` in bytes and `sha256` where they are known beforehand.

    A file with a `sha256` is the same wherever it comes from, so any source may continue it.
    """

    name: str
    size: int | None = None
    sha256: str | None = None


class Source(Protocol):
    """One place that has one file."""

    @property
    def label(self) -> str:
        """What people call the place."""
        ...

    @property
    def scratch_fraction(self) -> float:
        """Room the source needs beside the file while it works, as a share of the file's size."""
        ...

    def fetch(
        self, file: RemoteFile, partial: PartialFile, on_progress: OnProgress, cancelled: Cancelled
    ) -> None:
        """Bring the file to its end, from where `partial` stands if that can be continued.

        Whether the bytes are the right ones is for the caller to check. Raises `SourceUnavailable`
        where the place does not answer, lacks the file or stops in the middle (what arrived stays
        in `partial`), `PullCancelled`, and `DiskFull`.
        """
        ...


def raise_if_cancelled(cancelled: Cancelled) -> None:
    """Raise `PullCancelled` if the download was cancelled."""
    if cancelled():
        raise PullCancelled("The download was cancelled.", hint="Pull again to continue it.")
