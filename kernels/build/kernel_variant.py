"""A Triton kernel with all its constants, which can be compiled without a GPU."""

from __future__ import annotations

from typing import Protocol

from .compiled_kernel import CompiledKernel


class KernelVariant(Protocol):
    """What is compiled ahead of time, and found again by what it was compiled of."""

    @property
    def name(self) -> str:
        """Of this variant alone, fit for a file's name; `launch_compiled` takes it."""
        ...

    def source(self, architecture: str) -> str:
        """All text that decides what it compiles to: the kernel's source, its constants, how."""
        ...

    def compile(self, architecture: str) -> CompiledKernel:
        """For an architecture such as `sm_90`; raises `CompileFailed`, as without Triton."""
        ...
