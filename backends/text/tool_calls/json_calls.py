"""Parses calls as JSON objects with a name and arguments, and arguments alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..streaming.json_repair import quoted, read_text, read_value
from ..streaming.text_source import Steps, TextSource
from .call_format import CallContext
from .call_sink import CallSink

LONGEST_NAME = 256
_NAMES = frozenset({"name", "tool_name", "tool", "function_name"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args", "tool_input", "input"})
_OTHERS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})


@dataclass(frozen=True)
class JsonCalls:
    """Parses an object, an array of objects, or calls in Python syntax; see `Body`."""

    name_is_key: bool = False
    """Whether an object has the name as its only key, and the arguments as its value."""

    def read(self, call: CallContext) -> Steps[bool]:
        """See `Body.read`."""
        source = call.source
        yield from source.skip_space()
        char = yield from source.peek()
        if char == "{":
            return (yield from self._read_one(call))
        if char != "[":
            return (yield from _read_pythonic(call))
        source.take(1)
        yield from source.skip_space()
        char = yield from source.peek()
        if char == "]" and not call.known_only:  # the model calls nothing
            source.take(1)
            return True
        if char == "{":
            return (yield from _read_several(call, self._read_one, _next_in_array))
        return (yield from _read_several(call, _read_pythonic, _next_in_list))

    def _read_one(self, call: CallContext) -> Steps[bool]:
        return (yield from _ObjectReader(call).read(name_is_key=self.name_is_key))


def _read_several(
    call: CallContext,
    read_one: Callable[[CallContext], Steps[bool]],
    go_on: Callable[[TextSource], Steps[bool]],
) -> Steps[bool]:
    """Read calls as long as `go_on` finds another one; anything else after them is text.

    Returns whether there was any call.
    """
    if not (yield from read_one(call)):
        return False
    while (yield from go_on(call.source)):
        call.source.keep()
        if not (yield from read_one(call)):
            call.sink.text(call.source.kept())
            break
    return True


def _next_in_array(source: TextSource) -> Steps[bool]:
    """Read the separator of two objects in an array, or its end; return whether another follows."""
    yield from source.skip_space()
    if (yield from source.accept(",", ";")):
        yield from source.skip_space()
    if (yield from source.peek()) == "{":
        return True
    yield from source.accept("]")
    return False


class _ObjectReader:
    """Reads one call that is an object."""

    def __init__(self, call: CallContext) -> None:
        self._source = call.source
        self._sink = call.sink
        self._ends = call.ends
        self._known_only = call.known_only
        self._name: str | None = None
        self._call_id: str | None = None
        self._early: list[str] = []  # arguments that came before the name
        self._begun = False

    def read(self, *, name_is_key: bool) -> Steps[bool]:
        """Read it; return False if it is not a call."""
        self._source.take(1)
        depth = 1
        if (yield from self._source.peek()) == "{":
            # Templates of Qwen 2.5 show calls in doubled braces, which models copy.
            self._source.take(1)
            depth = 2
        while depth:
            yield from self._source.skip_space()
            char = yield from self._source.peek()
            if not char or (yield from self._source.at(self._ends)):
                break
            if char in "},;":
                self._source.take(1)
                depth -= char == "}"
                continue
            key = yield from self._key(char)
            if key is None:
                break
            if key == "function" and (yield from self._source.peek()) == "{":
                self._source.take(1)
                depth += 1
            elif not (yield from self._member(key, name_is_key=name_is_key)):
                return self._begun
        return self._close(broken=depth > 0)

    def _key(self, char: str) -> Steps[str | None]:
        """Read a key and its colon; None without one."""
        if char not in "\"'" and not char.isidentifier():
            return None
        key = yield from self._word(char)
        yield from self._source.skip_space()
        yield from self._source.accept(":", "=")
        yield from self._source.skip_space()
        return key

    def _word(self, char: str) -> Steps[str]:
        if char in "\"'":
            pieces: list[str] = []
            yield from read_text(self._source, pieces.append, closed_by="")
            return json.loads("".join(pieces))
        word: list[str] = []
        while (char := (yield from self._source.peek())) and (char.isalnum() or char in "_-."):
            word.append(self._source.take(1))
        return "".join(word)

    def _member(self, key: str, *, name_is_key: bool) -> Steps[bool]:
        """Read a value; return False if this is not a call, or nothing more can be read."""
        if key in _NAMES or key == "function":
            return (yield from self._read_name())
        if key in _ARGUMENTS and not (self._begun or self._early):
            yield from self._read_arguments()
            return True
        if name_is_key and self._name is None and key not in _OTHERS:
            if not self._set_name(key):
                return False
            yield from self._read_arguments()
            return True
        if self._known_only and not self._begun and key not in _OTHERS:
            return False
        skipped: list[str] = []
        yield from read_value(self._source, skipped.append, self._ends)
        if key in _OTHERS and key.endswith("id") and not self._begun and len(skipped) < 20:
            said = "".join(skipped).strip('"')
            # Numeric ids count within an answer, and repeat in the next one.
            self._call_id = said if said and not said.isdigit() else None
        return True

    def _read_name(self) -> Steps[bool]:
        char = yield from self._source.peek()
        if not char or char in "{}[],:":
            return False
        name = yield from self._word(char)
        if self._source.exhausted or (self._name is None and not self._set_name(name)):
            return False
        if self._early and not self._begun:
            self._begin()
        return True

    def _set_name(self, name: str) -> bool:
        name = name.removeprefix("functions.")
        if not 0 < len(name) <= LONGEST_NAME or not self._sink.accepts(
            name, known_only=self._known_only
        ):
            return False
        self._name = name
        return True

    def _begin(self) -> None:
        self._begun = True
        self._sink.begin(self._name or "", self._call_id)
        for text in self._early:
            self._sink.arguments(text)

    def _read_arguments(self) -> Steps[None]:
        """Emit arguments as they arrive, or hold them until the name is known."""
        if self._name is None:
            emit = self._early.append
            sole = "value"
        else:
            self._begin()
            emit = self._sink.arguments
            sole = self._sink.sole_parameter(self._name)
        yield from read_arguments(self._source, emit, self._ends, sole=sole)

    def _close(self, *, broken: bool) -> bool:
        """End the object; return whether it was a call."""
        if not self._begun and self._name is not None and not broken:
            self._begin()
            if not self._early:
                self._sink.arguments("{}")
        return self._begun


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


_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_MORE = re.compile(r"[\w.\-]+")
_KEYWORD = re.compile(r"[^\s\d\"'(){}\[\],=+-][^\s\"'(){}\[\],=]* *")


def _next_in_list(source: TextSource) -> Steps[bool]:
    """Read the separator of two calls in brackets, or their end; return whether another follows."""
    char = yield from source.ahead()
    if char not in (",", ";", "]"):
        return False
    yield from source.skip_space()
    source.take(1)
    yield from source.skip_space()
    # The list may end with a comma.
    return char != "]" and not (yield from source.accept("]"))


def _read_pythonic(call: CallContext, *, wrapped: bool = False) -> Steps[bool]:
    """Read one call in Python syntax; return False if there is none."""
    source, sink = call.source, call.sink
    name = yield from _word(source)
    yield from source.skip_space()
    if not name or not (yield from source.accept("(")):
        return False
    if name == "print" and not sink.knows(name) and not wrapped:  # Gemma wraps its calls
        found = yield from _read_pythonic(call, wrapped=True)
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
    while len(word) < LONGEST_NAME:
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
        yield from read_value(source, sink.arguments, closed_by=",)")
    sink.arguments("{}" if opened == "{" else "}")


def _keyword(source: TextSource) -> Steps[str | None]:
    """Read a keyword and its equals sign; None, consuming nothing, without one."""
    for length in range(1, LONGEST_NAME):
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
