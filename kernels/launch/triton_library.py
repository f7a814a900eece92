"""The Triton kernels of one device, compiled ahead of time or interpreted in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .cuda_driver import Argument, Grid


class TritonLibrary(Protocol):
    """Finds kernels by the names of their variants and launches them, in the order of the calls.

    On a GPU they go to torch's current stream, so that a graph can record them.
    """

    @property
    def architecture(self) -> str:
        """The architecture, such as `sm_90`, or `host`."""
        ...

    @property
    def num_sms(self) -> int:
        """The number of streaming multiprocessors."""
        ...

    def launch_compiled(self, name: str, grid: Grid, arguments: Sequence[Argument]) -> None:
        """Launch the variant `name` with the arguments that `CompiledKernel.parameters` lists.

        Threads, shared memory, hidden pointers and overlap are those of the `CompiledKernel`.
        Raises `LaunchFailed`, also if the variant was not compiled.
        """
        ...
