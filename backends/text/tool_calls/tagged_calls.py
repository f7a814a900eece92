"""Parses calls with a tag for each argument, whose value is unquoted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..streaming.json_repair import escaped, quoted
from ..streaming.text_source import Steps, TextSource, pass_until
from .argument_types import alternatives, json_fields, kinds, typed
from .call_format import CallContext
from .json_calls import LONGEST_NAME, read_arguments

_SAID = re.compile(r'(string|type)="([a-z]+)"')
_CDATA = "<![CDATA["
_STRING = frozenset({"string"})
_OBJECT = frozenset({"object"})
_WRAPPERS = frozenset({"arguments", "input", "parameters", "properties"})
_ITEM = "item"
_DEEPEST = 50


@dataclass(frozen=True)
class TaggedCalls:
    """Parses a name up to one of `name_ends`, then arguments, then `close`; see `Body`.

    Each argument is `member_open`, a key, `key_end`, perhaps `value_open`, the value, and
    `member_close`, in which «key» stands for the key; `variants` are other spellings of
    `member_open`. If `on_lines`, a line break on either side is not part of a value, and a line
    that begins another argument ends it. JSON may replace all arguments. Objects and arrays may be
    nested tags, each after the mark `nests`.
    """

    name_ends: tuple[str, ...]
    member_open: str
    key_end: str
    member_close: str
    close: str
    value_open: str = ""
    on_lines: bool = False
    nests: str = ""
    variants: tuple[str, ...] = ()

    def read(self, call: CallContext) -> Steps[bool]:
        """See `Body.read`."""
        source, sink = call.source, call.sink
        head = yield from source.until((*self.name_ends, self.close), LONGEST_NAME)
        name = (head or "").split('"')[0].strip().removeprefix("functions.")
        if not call.accepts(name):
            return False
        found = yield from source.at((*self.name_ends, self.close))
        if found not in (self.member_open, self.close):
            source.take(len(found))
        sink.begin(name)
        yield from source.skip_space()
        if (yield from source.peek()) == "{":
            sole = sink.sole_parameter(name)
            ends = (self.close, *call.ends)
            yield from read_arguments(source, sink.arguments, ends, sole=sole)
        else:
            yield from self._read_members(call, name)
        yield from source.skip_space()
        yield from source.accept(self.close)
        return True

    def _read_members(self, call: CallContext, name: str) -> Steps[None]:
        source, sink = call.source, call.sink
        root = sink.schema(name)
        properties = sink.properties(name)
        seen: set[str] = set()
        while (yield from self._opens_member(call)):
            head = yield from source.until((self.key_end,), LONGEST_NAME)
            if head is None:
                break
            yield from source.accept(self.key_end)
            key, _, said = head.partition('"')
            key = key.strip()
            value = _Value(key, properties.get(key), root, said)
            if key in seen:  # the first one may have been sent already
                yield from self._read_value(source, lambda _: None, value)
                continue
            start = f"{',' if seen else '{'}{quoted(key)}:"
            if not seen and key in _WRAPPERS and properties and key not in properties:
                pieces: list[str] = []
                yield from self._read_value(source, pieces.append, value)
                written = "".join(pieces)
                unwrapped = _wrapped_arguments(written, properties)
                if unwrapped and not (yield from self._opens_member(call, take=False)):
                    sink.arguments(unwrapped)
                    return
                sink.arguments(start + written)
            else:
                sink.arguments(start)
                yield from self._read_value(source, sink.arguments, value)
            seen.add(key)
        sink.arguments("}" if seen else "{}")

    def _opens_member(self, call: CallContext, *, take: bool = True) -> Steps[bool]:
        """Return whether another argument follows; `take` consumes the tag that opens it."""
        opens = (self.member_open, *self.variants)
        yield from call.source.skip_space()
        tag = yield from call.source.at((*opens, self.close, *call.ends))
        if tag in opens and take:
            call.source.take(len(tag))
        return tag in opens

    def _read_value(
        self, source: TextSource, emit: Callable[[str], None], value: _Value
    ) -> Steps[None]:
        close = self.member_close.replace("«key»", value.key)
        closes = [close]
        ends: list[str] = []
        if self.value_open:
            yield from source.skip_space()
            yield from source.accept(self.value_open)
        if (yield from source.accept(_CDATA)):
            closes = [f"]]>{close}"]
        elif self.on_lines:
            yield from source.accept("\n")
            closes = [f"\n{close}", close]
            ends = [f"\n{self.member_open}"]
        allowed = value.allowed
        if allowed == _STRING:  # then it can be streamed
            emit('"')
            yield from pass_until(
                source, [*closes, *ends], lambda text: emit(escaped(text)), take=closes
            )
            emit('"')
            return
        pieces: list[str] = []
        yield from pass_until(source, [*closes, *ends, self.close], pieces.append, take=closes)
        text = "".join(pieces)
        nested = _nested_value(text, self.nests, value.schema, value.root) if self.nests else None
        emit(nested or typed(text, allowed))


class _Value(NamedTuple):
    """The key and schema of a value that is about to be read."""

    key: str
    schema: object
    root: dict[str, Any]
    said: str
    """The type stated in its tag."""

    @property
    def allowed(self) -> frozenset[str]:
        """Return the types it may have, by its schema or its tag."""
        stated = dict(_SAID.findall(self.said))
        allowed = kinds(self.schema, self.root)
        if stated.get("string") == "true" or stated.get("type") == "string":
            return _STRING if "string" in allowed else allowed
        return allowed - _STRING or allowed if stated else allowed


def _wrapped_arguments(written: str, properties: dict[str, Any]) -> str:
    """Return the JSON object of all arguments that one argument contains; "" if it does not."""
    value = json.loads(written)
    inner = typed(value, _OBJECT) if isinstance(value, str) else written
    names = json_fields(json.loads(inner)).keys()
    return inner if names and names <= properties.keys() else ""


class _Node:
    """One tag: its own text, and its child tags."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[_Node] = []


def _nested_value(text: str, mark: str, schema: object, root: dict[str, Any]) -> str | None:
    """Return the JSON of a value made of tags, each after a `mark`; None if it has none."""
    if not text.lstrip().startswith(f"{mark}<"):
        return None
    top = _Node("")
    open_nodes = [top]
    end = 0
    for match in re.finditer(rf"{re.escape(mark)}<(/?)([^<>]*)>", text):
        open_nodes[-1].text += text[end : match.start()]
        end = match.end()
        if match[1]:
            if len(open_nodes) > 1:
                open_nodes.pop()
        elif len(open_nodes) < _DEEPEST:
            node = _Node(match[2].strip())
            open_nodes[-1].children.append(node)
            open_nodes.append(node)
    return _node_value(top, schema, root)


def _node_value(node: _Node, schema: object, root: dict[str, Any]) -> str:
    if not node.children:
        return typed(node.text, kinds(schema, root))
    if all(child.name == _ITEM for child in node.children):
        items = [_node_value(child, _part(schema, root, None), root) for child in node.children]
        return f"[{','.join(items)}]"
    members: dict[str, list[str]] = {}
    for child in node.children:
        value = _node_value(child, _part(schema, root, child.name), root)
        members.setdefault(child.name, []).append(value)
    written = (
        f"{quoted(name)}:" + (values[0] if len(values) == 1 else f"[{','.join(values)}]")
        for name, values in members.items()
    )
    return "{" + ",".join(written) + "}"


def _part(schema: object, root: dict[str, Any], name: str | None) -> object:
    """Return the schema of a member or of the items; None if it does not say."""
    for each in alternatives(schema, root):
        fields = json_fields(each)
        properties = json_fields(fields.get("properties"))
        if name is None and "items" in fields:
            return fields["items"]
        if name is not None and name in properties:
            return properties[name]
    return None
