"""Parses calls with the name before the arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..streaming.json_repair import read_value
from ..streaming.text_source import Steps, TextSource
from .call_format import CallContext
from .json_calls import LONGEST_NAME, JsonCalls, read_arguments

_JSON = JsonCalls()
_NUMBERED = re.compile(r"(?P<id>(?:functions\.)?(?P<name>.+):[0-9]+)")


@dataclass(frozen=True)
class NamedCalls:
    """Parses a name, one of the `marks`, and the arguments; see `Body`.

    An id may stand before or after the name, separated by an `id_mark`. JSON in place of a name is
    a call, or an array of them.
    """

    marks: tuple[str, ...]
    id_mark: str = ""
    id_first: bool = False

    def read(self, call: CallContext) -> Steps[bool]:
        """See `Body.read`."""
        source, sink, ends = call.source, call.sink, call.ends
        yield from source.skip_space()
        if (yield from source.peek()) in ("{", "["):
            return (yield from _JSON.read(call))
        head = yield from source.until((*self.marks, "{", *ends), LONGEST_NAME)
        if head is None:
            return False
        name, call_id = self._parts(head.strip())
        if (yield from source.accept(*self.marks)):
            name = (yield from _name_behind(source, ends)) or name
        if not call.accepts(name):
            return False
        yield from source.skip_space()
        yield from source.accept("```json", "```")
        yield from source.skip_space()
        sink.begin(name, call_id)
        yield from read_arguments(source, sink.arguments, ends, sole=sink.sole_parameter(name))
        return True

    def _parts(self, head: str) -> tuple[str, str | None]:
        """Split the name and the id, if there is one."""
        if self.id_mark and self.id_mark in head:
            first, _, second = head.partition(self.id_mark)
            return (second.strip(), first.strip()) if self.id_first else (first, second)
        numbered = _NUMBERED.fullmatch(head)
        if numbered:  # Kimi's format
            return numbered["name"], numbered["id"]
        return head.removeprefix("functions."), None


def _name_behind(source: TextSource, ends: Sequence[str]) -> Steps[str]:
    """Read a name on the rest of the line, as DeepSeek R1 writes after "function"."""
    yield from source.skip_space()
    char = yield from source.peek()
    if not char.isidentifier():
        return ""
    return ((yield from source.until(("\n", "{", "`", *ends), LONGEST_NAME)) or "").strip()


@dataclass(frozen=True)
class GemmaCalls:
    """Parses calls such as `call:f{a:1,b:"x"}`, with a `quote` on both sides of strings; see
    `Body`.
    """

    quote: str

    def read(self, call: CallContext) -> Steps[bool]:
        """See `Body.read`."""
        source, sink, ends = call.source, call.sink, call.ends
        yield from source.skip_space()
        if not (yield from source.accept("call:", ":call:")):
            return (yield from _JSON.read(call))
        head = yield from source.until(("{", "(", *ends), LONGEST_NAME)
        name = (head or "").strip()
        if not call.accepts(name):
            return False
        sink.begin(name)
        if (yield from source.peek()) == "{":
            yield from read_value(source, sink.arguments, ends, mark=self.quote)
        else:
            sink.arguments("{}")
        return True
