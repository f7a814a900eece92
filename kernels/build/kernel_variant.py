"""A Triton kernel with all its constants, compilable without a GPU."""

from __future__ import annotations

from typing import Protocol

from .compiled_kernel import CompiledKernel


class KernelVariant(Protocol):
    """What can be compiled ahead of time and found again by its source."""

    @property
    def name(self) -> str:
        """A unique name, usable in a file name; `launch_compiled` takes it."""
        ...

    def source(self, architecture: str) -> str:
        """All text that determines the result: the kernel's source, its constants, the options."""
        ...

    def compile(self, architecture: str) -> CompiledKernel:
        """The kernel for an architecture such as `sm_90`.

        Raises `CompileFailed`, also without Triton.
        """
        ...
