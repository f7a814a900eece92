"""The kernels of one device: CUDA C++ and Triton ones, on a GPU or, in tests, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .cuda_driver import Argument, Grid


class KernelLibrary(Protocol):
    """Finds kernels by the name of their source and launches them, in the order of the calls.

    On a GPU they go to torch's current stream, so that a graph can record them.
    """

    architecture: str
    """The architecture, such as `sm_90`, or `host`."""
    num_sms: int
    """The number of streaming multiprocessors."""

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
        """Launch `kernel` of the file `source` in csrc.

        `overlap` lets it begin before the previous one has ended, if the GPU supports that: the
        kernel itself waits (`wait_for_previous_kernel`) before it reads what that one writes, or
        overwrites what that one reads. Raises `CompileFailed` or `LaunchFailed`.
        """
        ...


class TritonLibrary(Protocol):
    """Finds kernels by the names of their variants and launches them, in the order of the calls.

    On a GPU they go to torch's current stream, so that a graph can record them.
    """

    architecture: str
    """The architecture, such as `sm_90`, or `host`."""
    num_sms: int
    """The number of streaming multiprocessors."""

    def launch_compiled(self, name: str, grid: Grid, arguments: Sequence[Argument]) -> None:
        """Launch the variant `name` with the arguments that `CompiledKernel.parameters` lists.

        Threads, shared memory, hidden pointers and overlap are those of the `CompiledKernel`.
        Raises `LaunchFailed`, also if the variant was not compiled.
        """
        ...
