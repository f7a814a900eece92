"""From a model's events to the bytes of OpenAI's streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec
from msgspec import structs

from ingle.backends.base.events import Delta, Event, ReasoningDelta, ToolCallDelta

from ....http.sse_writer import encode_event

DONE = b"data: [DONE]\n\n"

Piece = Delta | ReasoningDelta | ToolCallDelta
"""An event that adds a piece of text to something."""

# What a chunk says of an event that is nothing but text; all that may be added has a default.
_PLAIN = frozenset({"id", "index", "text", "token_ids"})
_EXTRAS = tuple((f.name, f.default) for f in structs.fields(Delta) if f.name not in _PLAIN)
_TEXT, _THOUGHT = -2, -1

Place = tuple[int, int, int]
"""Prompt, sequence, and the number of the call that goes on, or one of the two above."""


class Answer(Protocol):
    """Turns the events of one job into the chunks of a stream; call `chunks` for each event.

    A stream may leave out the pieces that say nothing else and use `piece`.
    """

    @property
    def counts_on(self) -> bool:
        """Whether a chunk changes with all that came before it."""
        ...

    def chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """What the event adds to a stream."""
        ...

    def piece(self, prompt: int, event: Piece) -> msgspec.Struct | None:
        """The chunk of a piece that says nothing else; None where it is not told."""
        ...

    def usage_chunk(self) -> msgspec.Struct | None:
        """The last chunk of a stream that was asked to count."""
        ...


class ChunkFrames:
    """Encodes the chunks of one answer.

    Between two chunks that go on with the same thing only the text changes: they are encoded once,
    cut where the text stands, and put together around each new text. Chunks with more in them take
    the long way.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._encoder = msgspec.json.Encoder()
        self._cuts: dict[Place, tuple[bytes, bytes] | None] = {}
        self._cuttable = not answer.counts_on

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """What the events add to the stream."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta and event.text and self._cuttable and _is_plain(event):
                self._add(parts, (prompt, event.index, _TEXT), event, event.text)
            elif type(event) is ReasoningDelta and self._cuttable:
                self._add(parts, (prompt, event.index, _THOUGHT), event, event.text)
            elif type(event) is ToolCallDelta and self._cuttable:
                self._add(parts, (prompt, event.index, event.call), event, event.arguments)
            else:
                parts += map(self._frame, self._answer.chunks(prompt, event))
        return b"".join(parts)

    def end(self) -> bytes:
        """The end of the stream, with the count where that was asked for."""
        usage = self._answer.usage_chunk()
        return (b"" if usage is None else self._frame(usage)) + DONE

    def _add(self, parts: list[bytes], place: Place, event: Piece, text: str) -> None:
        if place not in self._cuts:
            self._cuts[place] = self._cut(place[0], event)
        cut = self._cuts[place]
        if cut is not None:
            parts += (cut[0], self._encoder.encode(text), cut[1])

    def _cut(self, prompt: int, event: Piece) -> tuple[bytes, bytes] | None:
        """The frame of a piece, up to its text and behind it."""
        name = "arguments" if isinstance(event, ToolCallDelta) else "text"
        chunks = [
            self._answer.piece(prompt, structs.replace(event, **{name: t})) for t in ("", "x")
        ]
        empty, other = (None if chunk is None else self._frame(chunk) for chunk in chunks)
        if empty is None or other is None:
            return None
        # The first difference is at the closing quote of the empty text.
        at = next(i for i, (a, b) in enumerate(zip(empty, other, strict=False)) if a != b)
        return empty[: at - 1], empty[at + 1 :]

    def _frame(self, chunk: msgspec.Struct) -> bytes:
        return encode_event(self._encoder.encode(chunk))


def _is_plain(event: Delta) -> bool:
    for name, default in _EXTRAS:  # noqa: SIM110 - a generator a token is what this is to spare
        if getattr(event, name) != default:
            return False
    return True
