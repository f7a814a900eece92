"""The text of a kernel's source file with its includes in place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

CSRC = Path(__file__).parents[1] / "csrc"
_SHIM = "cuda_shim.h"
_INCLUDE = re.compile(r'^#include "(.+)"$')

# A source with kernels declares one, or makes its variants by a macro.
_KERNELS = re.compile(r"^(EXPORT_KERNEL(_NAMED)?\(|[A-Z0-9_]+_VARIANTS$)", re.MULTILINE)
# Sources whose kernels only tests run.
_FOR_TESTS = "conformance.cuh"

NO_DEFINES: Mapping[str, str] = {}


def kernel_source(name: str, defines: Mapping[str, str] = NO_DEFINES) -> str:
    """The file `name` of csrc (or a path) after `defines`, with its includes in place.

    Compilers and cache keys use this one text. cuda_shim.h stays included, since only CPU compilers
    see it.
    """
    macros = [f"#define {macro} {value}" for macro, value in defines.items()]
    return "\n".join([*macros, *_lines(name, set())]) + "\n"


def kernel_sources() -> list[str]:
    """The files of csrc that define kernels which models need."""
    names = sorted(path.name for path in CSRC.glob("*.cuh"))
    return [name for name in names if name != _FOR_TESTS and _KERNELS.search(kernel_source(name))]


def digest(*parts: str) -> str:
    """A short digest of these texts, for file names."""
    joined = "\0".join(parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:32]


def _lines(name: str, seen: set[str]) -> list[str]:
    seen.add(name)
    lines: list[str] = []
    for number, line in enumerate((CSRC / name).read_text().splitlines(), start=1):
        match = _INCLUDE.match(line)
        if line == "#pragma once" or (match and match[1] in seen):
            lines.append("")
        elif match and match[1] != _SHIM:
            lines += _lines(match[1], seen)
            lines.append(f'#line {number + 1} "{name}"')
        else:
            lines.append(line)
    return [f'#line 1 "{name}"', *lines]
