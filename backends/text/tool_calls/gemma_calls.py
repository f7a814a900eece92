"""Parses calls as Gemma 4 writes them: `call:f{a:1,b:<|"|>x<|"|>}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..streaming.json_repair import read_value
from ..streaming.text_source import Steps, TextSource
from .call_sink import CallSink
from .json_calls import LONGEST_NAME, JsonCalls

QUOTE = '<|"|>'
_JSON = JsonCalls()
_NAME = re.compile(r"[^\s<>{}\[\]\"'`|]+")


@dataclass(frozen=True)
class GemmaCalls:
    """A name after `call:`, then an object whose keys have no quotes; see `Body`."""

    def read(
        self, source: TextSource, sink: CallSink, *, known_only: bool, ends: Sequence[str]
    ) -> Steps[bool]:
        """See `Body.read`."""
        yield from source.skip_space()
        if not (yield from source.accept("call:")):
            return (yield from _JSON.read(source, sink, known_only=known_only, ends=ends))
        head = yield from source.until(("{", "(", *ends), LONGEST_NAME)
        name = (head or "").strip()
        if not _NAME.fullmatch(name) or not sink.accepts(name, known_only=known_only):
            return False
        sink.begin(name)
        if (yield from source.peek()) == "{":
            yield from read_value(source, sink.arguments, ends, mark=QUOTE)
        else:
            sink.arguments("{}")
        return True
