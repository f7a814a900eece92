"""Kernels that were compiled ahead of time from Triton, whatever runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .cuda_driver import Argument, Grid


class TritonLibrary(Protocol):
    """Finds kernels by the names of their variants and starts them, in the order of the calls.

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

    def launch_compiled(self, name: str, grid: Grid, arguments: Sequence[Argument]) -> None:
        """Start the variant `name` with the arguments that `CompiledKernel.parameters` lists.

        Threads, shared memory, hidden pointers and whether it may begin before the previous kernel
        ends are what `CompiledKernel` says. Raises `LaunchFailed`, also where nobody compiled it.
        """
        ...
