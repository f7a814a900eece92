"""Line numbers of keys in a TOML file, which the standard library's parser does not report."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TABLE = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_STEP = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Return the line number, from 1, that sets the key or opens the table at this path.

    For a key inside an inline table it is the line of the nearest enclosing key. The text must be
    valid TOML; a line of a multi-line string may be mistaken for a key.
    """
    best: tuple[int, int] | None = None
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = _steps(header[1])
            found = table
        elif key := _KEY.match(line):
            found = table + _steps(key[1])
        else:
            continue
        if found == tuple(path[: len(found)]) and (best is None or len(found) > best[0]):
            best = (len(found), number)
    return best[1] if best else None


def _steps(dotted: str) -> tuple[str, ...]:
    return tuple(step.strip("\"'") for step in _STEP.findall(dotted))
