"""Triton kernels compiled ahead of time: variants, what their launch needs, and their files."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol


def write_atomically(path: Path, content: bytes) -> None:
    """Create or replace a file, and its folder; safe if two processes write the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)


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


def write_compiled_kernel(compiled: CompiledKernel, path: Path) -> None:
    """Write the cubin to `path`, and everything else to the same name with the suffix `.json`."""
    facts = asdict(compiled)
    del facts["cubin"]
    write_atomically(path, compiled.cubin)
    write_atomically(path.with_suffix(".json"), json.dumps(facts, indent=1).encode())


def read_compiled_kernel(path: Path) -> CompiledKernel | None:
    """The kernel that `write_compiled_kernel` wrote; None if there is none."""
    try:
        facts = json.loads(path.with_suffix(".json").read_bytes())
        cubin = path.read_bytes()
    except FileNotFoundError:
        return None
    return CompiledKernel(**facts | {"cubin": cubin, "parameters": tuple(facts["parameters"])})


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
