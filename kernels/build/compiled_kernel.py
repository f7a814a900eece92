"""A kernel compiled ahead of time, with what its launch needs to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompiledKernel:
    """The cubin of the function `kernel` for one `architecture`, such as `sm_90`.

    `threads` a block and `shared_bytes` of dynamic shared memory are fixed at compile time.
    `parameters` are the types of its arguments in order, in Triton's notation (`*fp16`, `i32`,
    `fp32`); they are followed by `hidden_pointers` null pointers. With `overlap` the kernel itself
    waits for the previous one, so that it may be launched before that one ends.
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
