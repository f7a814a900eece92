"""All compiled kernels of one device, whatever runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .cuda_driver import Argument, Grid


class KernelLibrary(Protocol):
    """Finds kernels by the name of their source and starts them, in the order of the calls.

    On a GPU they go to torch's current stream, so that a graph can record them.
    """

    @property
    def architecture(self) -> str:
        """Such as `sm_90`, or `host`."""
        ...

    @property
    def processors(self) -> int:
        """Streaming multiprocessors."""
        ...

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        """Start `kernel` of the file `source` in csrc.

        `overlap` lets it begin before the one before it has ended, where the GPU can do that: it
        waits itself (`wait_for_previous_kernel`) before it reads what that one writes, or writes
        what that one reads. Raises `CompileFailed` or `LaunchFailed`.
        """
        ...
