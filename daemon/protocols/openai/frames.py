"""From a model's events to the bytes of OpenAI's streams."""

from __future__ import annotations

import msgspec
from msgspec import structs

from ingle.backends.base import Delta, Event

from ...http.sse import encode_event
from .answers import Answer

DONE = b"data: [DONE]\n\n"

# What a chunk says of an event that is nothing but text; all that may be added has a default.
_PLAIN = frozenset({"id", "index", "text", "token_ids"})
_EXTRAS = tuple((f.name, f.default) for f in structs.fields(Delta) if f.name not in _PLAIN)


class ChunkFrames:
    """Encodes the chunks of one answer.

    Between two chunks of one choice only the text changes: they are encoded once, cut where the
    text stands, and put together around each new text. Chunks with more in them take the long way.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._encoder = msgspec.json.Encoder()
        self._cuts: dict[tuple[int, int], tuple[bytes, bytes]] = {}

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """What the events add to the stream."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta and event.text and _is_plain(event):
                key = (prompt, event.index)
                head, tail = self._cuts.get(key) or self._cut(key)
                parts += (head, self._encoder.encode(event.text), tail)
            else:
                parts += map(self._frame, self._answer.chunks(prompt, event))
        return b"".join(parts)

    def end(self) -> bytes:
        """The end of the stream, with the count where that was asked for."""
        usage = self._answer.usage_chunk()
        return (b"" if usage is None else self._frame(usage)) + DONE

    def _cut(self, key: tuple[int, int]) -> tuple[bytes, bytes]:
        """The frame of a text, up to the text and behind it."""
        empty, other = (self._frame(self._answer.text_chunk(*key, text)) for text in ("", "x"))
        # The first difference is at the closing quote of the empty text.
        at = next(i for i, (a, b) in enumerate(zip(empty, other, strict=False)) if a != b)
        self._cuts[key] = empty[: at - 1], empty[at + 1 :]
        return self._cuts[key]

    def _frame(self, chunk: msgspec.Struct) -> bytes:
        return encode_event(self._encoder.encode(chunk))


def _is_plain(event: Delta) -> bool:
    for name, default in _EXTRAS:  # noqa: SIM110 - a generator a token is what this is to spare
        if getattr(event, name) != default:
            return False
    return True
