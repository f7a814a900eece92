"""Files of compiled Triton kernels: a cubin, and a JSON file beside it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from .atomic_write import write_atomically
from .compiled_kernel import CompiledKernel


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
