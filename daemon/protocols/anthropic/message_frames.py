"""From a model's events to the bytes of Anthropic's streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)

from ...http.sse_writer import encode_event
from ..answer_builder import AnswerBuilder
from .answers import envelope, signature, stop_reason, tool_use_id, usage
from .stream_events import (
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJSONDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    StopDelta,
    TextDelta,
    ThinkingDelta,
)
from .types import OutputBlock, TextBlock, ThinkingBlock, ToolUseBlock

_EMPTY = msgspec.Raw(b"{}")


class MessageFrames:
    """Encodes one message: a block begins where the model turns to something else."""

    def __init__(self, collected: AnswerBuilder, *, shows_thoughts: bool = True) -> None:
        self._collected = collected
        self._shows_thoughts = shows_thoughts
        self._encoder = msgspec.json.Encoder()
        self._open: Literal["text", "thinking", "tool_use"] | None = None
        self._index = -1
        self._head = b""

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """What the events add to the stream."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta:
                parts += self._text(event.text)
            else:
                parts += map(self._frame, self._others(event))
        return b"".join(parts)

    def end(self) -> bytes:
        """The last block's end, why the message ended, and its end."""
        reason, stop = stop_reason(self._collected)
        delta = MessageDelta(StopDelta(reason, stop), usage(self._collected))
        return b"".join(map(self._frame, [*self._close(), delta, MessageStop()]))

    def _text(self, text: str) -> Iterator[bytes]:
        """Text comes a token at a time: only what changes is encoded."""
        if not text:
            return
        if self._open != "text":
            yield from map(self._frame, self._begin("text", TextBlock("")))
            whole = self._frame(ContentBlockDelta(self._index, TextDelta("")))
            self._head = whole.removesuffix(b'""}}\n\n')
        yield b"%b%b}}\n\n" % (self._head, self._encoder.encode(text))

    def _others(self, event: Event) -> Iterator[msgspec.Struct]:
        match event:
            case Started():
                self._collected.count(event)
                yield MessageStart(envelope(self._collected, []))
            case ReasoningDelta():
                if self._open != "thinking":
                    yield from self._begin("thinking", ThinkingBlock("", ""))
                if self._shows_thoughts:
                    yield ContentBlockDelta(self._index, ThinkingDelta(event.text))
            case ToolCallStarted():
                block = ToolUseBlock(tool_use_id(event.call_id), event.name, _EMPTY)
                yield from self._begin("tool_use", block)
            case ToolCallDelta():
                yield ContentBlockDelta(self._index, InputJSONDelta(event.arguments))
            case Finished():
                self._collected.count(event)
                self._collected.answers[0].take(event)
            case Delta():
                return

    def _begin(
        self, kind: Literal["text", "thinking", "tool_use"], block: OutputBlock
    ) -> Iterator[msgspec.Struct]:
        yield from self._close()
        self._open = kind
        self._index += 1
        yield ContentBlockStart(self._index, block)

    def _close(self) -> Iterator[msgspec.Struct]:
        if self._open == "thinking":
            yield ContentBlockDelta(self._index, SignatureDelta(signature(self._collected.job.id)))
        if self._open is not None:
            yield ContentBlockStop(self._index)
        self._open = None

    def _frame(self, event: msgspec.Struct) -> bytes:
        name = event.__struct_config__.tag
        return encode_event(self._encoder.encode(event), event=str(name))


PING = encode_event(msgspec.json.encode(Ping()), event="ping")
