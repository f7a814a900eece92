"""Restores placeholders in a provider's answer, whose other bytes stay as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ingle.backends.base.events import Delta, Event, ToolCallDelta
from ingle.backends.remote.errors import ProviderMisbehaved
from ingle.backends.remote.receipt import TokenUsage

from ..egress.placeholders import LOOKALIKE
from ..egress.redaction import Redaction
from .json_nodes import (
    JsonList,
    JsonNode,
    JsonObject,
    JsonPlain,
    JsonString,
    NotJson,
    quoted,
    read_nodes,
    replaced,
)

LARGEST_EVENT = 8 * 2**20
"""Bytes of one server-sent event."""

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA = re.compile(rb"^data: ?(\{.*\})[ \t\r]*$", re.MULTILINE)
_SILENT = ("ping", "keepalive")
_SIGNED = ("thinking", "signature", "data", "encrypted_content", "thoughtSignature")
_JSON = ("arguments", "partial_json")
_NOT_TEXT = ("role", "id", "type", "name")

Key = tuple[str, ...]


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    completion_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Within(msgspec.Struct):
    usage: _Usage | None = None


class _Counted(msgspec.Struct):
    usage: _Usage | None = None
    message: _Within | None = None
    response: _Within | None = None


_COUNTED = msgspec.json.Decoder(_Counted)


class _Piece(NamedTuple):
    """A part of a text in an event; `key` tells the texts of an answer apart."""

    key: Key
    name: str
    string: JsonString

    @property
    def is_json(self) -> bool:
        """Whether the text is that of a JSON value."""
        return self.name in _JSON or "arguments" in self.key[0]


@dataclass
class _Stream:
    """One text: its number, and the event with its last piece."""

    number: int
    event: bytes = b""
    pieces: tuple[_Piece, ...] = ()


class AnswerRestorer:
    """Restores one answer, in one piece or as server-sent events cut anywhere.

    Signed text stays as the provider wrote it, and is passed to `note`.
    """

    def __init__(self, redaction: Redaction | None, note: Callable[[str], None]) -> None:
        self._redaction = redaction
        self._restorer = redaction.restorer() if redaction is not None else None
        self._note = note
        self._rest = b""
        self._streams: dict[Key, _Stream] = {}
        self._signed: dict[Key, list[str]] = {}
        self.usage: TokenUsage | None = None
        """The tokens counted so far."""

    def feed(self, chunk: bytes) -> bytes:
        """Return what of a stream can be passed on; raises `ProviderMisbehaved`."""
        *events, self._rest = _split(self._rest + chunk)
        if len(self._rest) > LARGEST_EVENT:
            raise ProviderMisbehaved("The provider sent an event that does not end.")
        return b"".join(self._event(event) for event in events)

    def end(self) -> bytes:
        """Return what remains of a stream."""
        rest, self._rest = self._rest, b""
        return (self._event(rest) if rest else b"") + self._flush()

    def whole(self, body: bytes) -> bytes:
        """Return an answer in one piece; one that is not JSON stays as it is."""
        self._count(body)
        try:
            text = body.decode()
            root = read_nodes(text)
        except (UnicodeDecodeError, NotJson):
            return body
        return replaced(text, self._restored_strings(root, "")).encode()

    def _event(self, event: bytes) -> bytes:
        match = _DATA.search(event)
        if match is None:  # a comment, or the end
            return event if event.startswith(b":") else self._flush() + event
        self._count(match[1])
        try:
            text = match[1].decode()
            root = read_nodes(text)
        except (UnicodeDecodeError, NotJson):
            return event
        if not isinstance(root, JsonObject) or root.word("type") in _SILENT:
            return event
        pieces = tuple(_streamed(root))
        changes: list[tuple[int, int, str]] = []
        for piece in pieces:
            string = piece.string
            if piece.name in _SIGNED:
                self._signed.setdefault(piece.key, []).append(string.text)
            elif (new := self._next(piece, pieces, event)) != string.text:
                changes.append((string.start, string.end, f'"{quoted(new)}"'))
        before = b""
        if not any(piece.string.text for piece in pieces):
            before = self._flush()
            changes += self._restored_strings(root, "")
        return before + (_with_data(event, changes) if changes else event)

    def _next(self, piece: _Piece, pieces: tuple[_Piece, ...], event: bytes) -> str:
        """Return the next piece of a text with values restored."""
        if self._restorer is None:
            return piece.string.text
        stream = self._streams.setdefault(piece.key, _Stream(len(self._streams)))
        stream.event, stream.pieces = event, pieces
        new = _as_event(stream.number, piece.string.text, is_json=piece.is_json)
        return _joined(self._restorer.feed([new]))

    def _flush(self) -> bytes:
        """Return events for what was held back of texts that end here."""
        events: list[bytes] = []
        for key, stream in self._streams.items():
            assert self._restorer is not None
            if held := _joined(self._restorer.flush(stream.number)):
                # As in the event before, without what else that had.
                changes = [
                    (
                        one.string.start,
                        one.string.end,
                        f'"{quoted(held if one.key == key else "")}"',
                    )
                    for one in stream.pieces
                ]
                events.append(_with_data(stream.event, changes))
        for pieces in self._signed.values():
            self._note("".join(pieces))
        self._signed.clear()
        return b"".join(events)

    def _restored_strings(self, node: JsonNode, key: str) -> Iterator[tuple[int, int, str]]:
        """Yield the changes that restore every whole string of the value of this key."""
        match node:
            case JsonString() if key in _SIGNED:
                self._note(node.text)
            case JsonString() if self._redaction is not None and LOOKALIKE.search(node.text):
                restorer = self._redaction.restorer()
                new = _joined(restorer.feed([_as_event(0, node.text, is_json=key in _JSON)]))
                new += _joined(restorer.flush(0))
                if new != node.text:
                    yield node.start, node.end, f'"{quoted(new)}"'
            case JsonObject(members=members):
                for name, value in members:
                    yield from self._restored_strings(value, name.text)
            case JsonList(items=items):
                for item in items:
                    yield from self._restored_strings(item, key)
            case _:
                pass

    def _count(self, data: bytes) -> None:
        """Update the usage; counts at the end replace those at the start."""
        if b'"usage"' not in data:
            return
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            counted = _COUNTED.decode(data)
            for within in (counted, counted.message, counted.response):
                if within is not None and within.usage is not None:
                    self.usage = _added(self.usage or TokenUsage(), within.usage)


def _split(data: bytes) -> list[bytes]:
    """Return the events with their ends, and the beginning of the next one."""
    found: list[bytes] = []
    at = 0
    for match in _END.finditer(data):
        found.append(data[at : match.end()])
        at = match.end()
    return [*found, data[at:]]


def _with_data(event: bytes, changes: list[tuple[int, int, str]]) -> bytes:
    """Return an event with these changes of the text of its data."""
    match = _DATA.search(event)
    assert match is not None
    data = replaced(match[1].decode(), sorted(changes)).encode()
    return b"".join([event[: match.start(1)], data, event[match.end(1) :]])


def _streamed(root: JsonObject) -> Iterator[_Piece]:
    """Yield the pieces of texts in an event of any of the protocols."""
    kind, delta = root.word("type"), root.find("delta")
    if kind == "content_block_delta" and isinstance(delta, JsonObject):
        for key, value in delta.members:
            if isinstance(value, JsonString) and key.text not in _NOT_TEXT:
                yield _Piece((kind, _plain(root, "index"), key.text), key.text, value)
    elif kind.endswith(".delta") and isinstance(delta, JsonString):
        places = ("output_index", "content_index", "summary_index", "item_id")
        yield _Piece((kind, *(_plain(root, name) for name in places)), "delta", delta)
    elif isinstance(choices := root.find("choices"), JsonList):
        for choice in choices.items:
            if isinstance(choice, JsonObject) and (piece := choice.find("delta")) is not None:
                yield from _chat_pieces(piece, ("chat", _plain(choice, "index")))


def _chat_pieces(node: JsonNode, path: Key) -> Iterator[_Piece]:
    if isinstance(node, JsonObject):
        for key, value in node.members:
            if not isinstance(value, JsonString):
                yield from _chat_pieces(value, (*path, key.text))
            elif key.text not in _NOT_TEXT:
                yield _Piece((*path, key.text), key.text, value)
    elif isinstance(node, JsonList):
        for number, item in enumerate(node.items):
            index = _plain(item, "index") if isinstance(item, JsonObject) else ""
            yield from _chat_pieces(item, (*path, index or str(number)))


def _plain(node: JsonObject, name: str) -> str:
    """Return a number or string as it is written; empty if there is none."""
    value = node.find(name)
    return value.text if isinstance(value, JsonString | JsonPlain) else ""


def _as_event(number: int, text: str, *, is_json: bool) -> Event:
    if is_json:
        return ToolCallDelta("", number, 0, text, [])
    return Delta("", number, text, [])


def _joined(events: list[Event]) -> str:
    return "".join(
        event.arguments if isinstance(event, ToolCallDelta) else event.text
        for event in events
        if isinstance(event, Delta | ToolCallDelta)
    )


def _added(before: TokenUsage, usage: _Usage) -> TokenUsage:
    cached = usage.cache_read_input_tokens
    prompt = before.prompt
    if usage.input_tokens is not None:
        prompt = usage.input_tokens + (cached or 0) + (usage.cache_creation_input_tokens or 0)
    elif usage.prompt_tokens is not None:
        prompt = usage.prompt_tokens
    completion = usage.output_tokens if usage.output_tokens is not None else usage.completion_tokens
    return TokenUsage(
        prompt=max(prompt, 0),
        completion=before.completion if completion is None else max(completion, 0),
        cached=before.cached if cached is None else max(cached, 0),
    )
