"""Reads the arguments of a call as the text of a JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..streaming.json_repair import quoted, read_value
from ..streaming.json_strings import read_text
from ..streaming.text_source import Steps, TextSource


def read_arguments(
    source: TextSource, emit: Callable[[str], None], ends: Sequence[str], *, sole: str
) -> Steps[None]:
    """Read a value and emit an object: itself, one parsed from a JSON string, or an empty one.

    Any other value becomes that of the parameter `sole`.
    """
    yield from source.skip_space()
    char = yield from source.peek()
    if char == "{":
        yield from read_value(source, emit, ends)
        return
    pieces: list[str] = []
    if char in ("'", '"'):
        yield from read_text(source, pieces.append, closed_by=",}]", ends=ends)
        emit(_object_of(json.loads("".join(pieces)), sole))
        return
    yield from read_value(source, pieces.append, ends)
    value = "".join(pieces)
    emit("{}" if value in ("null", '""', "[]") else f"{{{quoted(sole)}:{value}}}")


def _object_of(text: str, sole: str) -> str:
    """Return the object in a text that should be JSON."""
    if not text.strip():
        return "{}"
    if not text.lstrip().startswith("{"):
        return f"{{{quoted(sole)}:{quoted(text)}}}"
    pieces: list[str] = []
    source = TextSource(text.lstrip(), ended=True)
    for _ in read_value(source, pieces.append):
        break  # the source has ended
    return "".join(pieces)
