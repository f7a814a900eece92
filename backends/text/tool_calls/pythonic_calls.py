"""Parses calls in Python syntax: `[f(a=1), g(b="x")]`, or one without brackets."""

from __future__ import annotations

import re

from ..streaming.json_repair import quoted, read_value
from ..streaming.text_source import Steps, TextSource
from .call_format import CallContext
from .call_sink import CallSink

_LONGEST_NAME = 256
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_MORE = re.compile(r"[\w.\-]+")
_KEYWORD = re.compile(r"[^\s\d\"'(){}\[\],=+-][^\s\"'(){}\[\],=]* *")


def read_pythonic(call: CallContext) -> Steps[bool]:
    """Read calls; return False if there is none, whatever was consumed."""
    source, sink = call.source, call.sink
    in_array = bool((yield from source.accept("[")))
    some = False
    while True:
        yield from source.skip_space()
        if some:
            source.keep()
        if not (yield from _read_one(call)):
            if some:
                sink.text(source.kept())
            return some
        some = True
        char = yield from source.ahead()
        if char not in (",", ";", "]") or not in_array:
            return True
        yield from source.skip_space()
        source.take(1)
        if char == "]":
            return True
        if (yield from source.ahead()) == "]":  # a trailing comma
            yield from source.skip_space()
            source.take(1)
            return True


def _read_one(call: CallContext, *, wrapped: bool = False) -> Steps[bool]:
    source, sink = call.source, call.sink
    name = yield from _word(source)
    yield from source.skip_space()
    if not name or not (yield from source.accept("(")):
        return False
    if name == "print" and not sink.knows(name) and not wrapped:  # Gemma wraps its calls
        found = yield from _read_one(call, wrapped=True)
        yield from source.skip_space()
        yield from source.accept(")")
        return found
    if not sink.knows(name):
        name = name.removesuffix(".call")  # Llama's built-in tools
    if not sink.accepts(name, known_only=call.known_only):
        return False
    sink.begin(name)
    yield from _read_arguments(source, sink, list(sink.properties(name)))
    return True


def _word(source: TextSource) -> Steps[str]:
    word = ""
    while len(word) < _LONGEST_NAME:
        word += source.take_run(_NAME if not word else _MORE)
        char = yield from source.peek()
        if not char or not (_MORE if word else _NAME).match(char):
            break
    return word


def _read_arguments(source: TextSource, sink: CallSink, names: list[str]) -> Steps[None]:
    """Read arguments in parentheses, by keyword or position."""
    opened = "{"
    while True:
        yield from source.skip_space()
        char = yield from source.peek()
        if char == ",":
            source.take(1)
            continue
        if not char or char in ")]}":
            yield from source.accept(")")
            break
        name = yield from _keyword(source)
        key = name or (names.pop(0) if names else f"argument{len(opened)}")
        if key in names:
            names.remove(key)
        sink.arguments(f"{opened}{quoted(key)}:")
        opened = ","
        yield from read_value(source, sink.arguments)
    sink.arguments("{}" if opened == "{" else "}")


def _keyword(source: TextSource) -> Steps[str | None]:
    """Read a keyword and its equals sign; None, consuming nothing, without one."""
    for length in range(1, _LONGEST_NAME):
        there = yield from source.peek(length)
        if len(there) < length:
            return None
        if there[-1] == "=" and length > 1:
            if (yield from source.peek(length + 1))[length:] == "=":
                return None
            source.take(length)
            return there[:-1].strip()
        if not _KEYWORD.fullmatch(there):
            return None
    return None
