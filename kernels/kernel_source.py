"""The text of a kernel's source file, with all that it includes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

CSRC = Path(__file__).parent / "csrc"
_SHIM = "cuda_shim.h"
_INCLUDE = re.compile(r'^#include "(.+)"$')


NO_DEFINES: Mapping[str, str] = MappingProxyType({})


def kernel_source(name: str, defines: Mapping[str, str] = NO_DEFINES) -> str:
    """The file `name` of csrc (or a path) after `defines`, with its includes in place.

    One text is what every compiler gets and what a cache compares. cuda_shim.h stays included,
    since only compilers for CPUs get to see it.
    """
    macros = [f"#define {macro} {value}" for macro, value in defines.items()]
    return "\n".join([*macros, *_lines(name, set())]) + "\n"


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
