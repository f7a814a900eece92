"""The text of a kernel's source file, with all that it includes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

CSRC = Path(__file__).parents[1] / "csrc"
_SHIM = "cuda_shim.h"
_INCLUDE = re.compile(r'^#include "(.+)"$')

# What ends in kernels says so, or has its kernels from a macro that names variants.
_KERNELS = re.compile(r"^(EXPORT_KERNEL(_NAMED)?\(|[A-Z0-9_]+_VARIANTS$)", re.MULTILINE)
# Kernels that no model needs.
_FOR_TESTS = "conformance.cuh"

NO_DEFINES: Mapping[str, str] = MappingProxyType({})


def kernel_source(name: str, defines: Mapping[str, str] = NO_DEFINES) -> str:
    """The file `name` of csrc (or a path) after `defines`, with its includes in place.

    One text is what every compiler gets and what a cache compares. cuda_shim.h stays included,
    since only compilers for CPUs get to see it.
    """
    macros = [f"#define {macro} {value}" for macro, value in defines.items()]
    return "\n".join([*macros, *_lines(name, set())]) + "\n"


def kernel_sources() -> list[str]:
    """The files of csrc that have kernels for models, rather than what such files include."""
    names = sorted(path.name for path in CSRC.glob("*.cuh"))
    return [name for name in names if name != _FOR_TESTS and _KERNELS.search(kernel_source(name))]


def digest(*parts: str) -> str:
    """A name for what was made from these texts."""
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
