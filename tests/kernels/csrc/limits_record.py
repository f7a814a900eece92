"""Records which kernel sources are known to be within limits.toml on every architecture.

Compiling all kernels for all architectures takes minutes, so by default only sources that changed
since they were recorded are compiled; scripts/nightly compiles all. To record:
`pytest -m "" tests/kernels/csrc/test_limits.py && python tests/kernels/csrc/limits_record.py`.
"""

from __future__ import annotations

import functools
import json
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ingle.kernels.build.kernel_source import digest, kernel_source

LIMITS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("limits.toml").read_text())
SOURCES = [name for name in LIMITS if name.endswith(".cuh")]
RECORD = Path(__file__).with_name("limits_record.json")


def state(source: str) -> str:
    """Return a digest of what determines the result: source, limits and compiler version."""
    limits = json.dumps([LIMITS[source], LIMITS["shared_bytes"]], sort_keys=True)
    return digest(kernel_source(source), limits, version("nvidia-cuda-nvrtc"))


@functools.cache
def changed(source: str) -> bool:
    """Return whether a source, its limits or the compiler changed since the record."""
    return json.loads(RECORD.read_text()).get(source) != state(source)


if __name__ == "__main__":
    RECORD.write_text(json.dumps({name: state(name) for name in SOURCES}, indent=1) + "\n")
