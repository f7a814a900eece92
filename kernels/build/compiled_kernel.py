"""A kernel compiled ahead of time, and what its launch has to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code of the function `kernel` for one `architecture`, such as `sm_90`.

    `threads` a block and `shared_bytes` of dynamic shared memory are fixed when it is compiled.
    `parameters` are the types of its arguments in order, as Triton spells them (`*fp16`, `i32`,
    `fp32`); `hidden_pointers` more follow them, which are null. `overlap` says that the kernel
    itself waits for the one before it, so that it may be launched before that one ends.
    """

    name: str
    architecture: str
    cubin: bytes
    kernel: str
    threads: int
    shared_bytes: int
    parameters: tuple[str, ...]
    hidden_pointers: int
    overlap: bool
    compiler: str
