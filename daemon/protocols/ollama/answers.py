"""Converts a model's events into Ollama's answers, streamed and whole."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, structs

from ingle.backends.base.conversation import ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    PromptAdvanced,
    ReasoningDelta,
    Started,
    ToolCallStarted,
)

from ...error_status import describe
from ...errors import OllamaError
from ...http.sse_writer import NDJSON, StreamStyle
from ..answer_values import TokenLogprob, token_logprobs
from ..job import AnswerBuilder
from .types import (
    AnswerMessage,
    ChatLine,
    FunctionCall,
    GenerateLine,
    MessageCall,
    Metrics,
)

NDJSON_MEDIA = NDJSON.decode()


def error_line(error: Exception) -> bytes:
    """The last line of a stream that fails after it began."""
    return msgspec.json.encode(OllamaError.of(describe(error))) + b"\n"


LINES = StreamStyle(
    on_error=error_line, media_type=NDJSON, comment=b"", loading=lambda fraction: b""
)
"""JSON lines have no comments: while a model is loading, only the headers are sent."""


NANOSECONDS = 1e9


class Piece(NamedTuple):
    """The content of one line."""

    text: str = ""
    thinking: str = ""
    calls: list[MessageCall] | None = None
    logprobs: list[TokenLogprob] | None = None


class LineMaker(ABC):
    """Makes the lines of one route for a model of this name."""

    def __init__(self, model: str) -> None:
        self._model = model

    @abstractmethod
    def line(self, piece: Piece) -> msgspec.Struct:
        """A line of an unfinished answer."""

    def last(self, piece: Piece, metrics: Metrics, tokens: list[int]) -> msgspec.Struct:
        """The last line of an answer with these tokens."""
        return structs.replace(self.line(piece), done=True, **structs.asdict(metrics))

    def _common(self, piece: Piece) -> dict[str, Any]:
        return {
            "model": self._model,
            "created_at": datetime.now(UTC),
            "done": False,
            "logprobs": piece.logprobs or UNSET,
        }


class ChatLines(LineMaker):
    """The lines of `POST /api/chat`."""

    def line(self, piece: Piece) -> ChatLine:
        """A piece of the message."""
        message = AnswerMessage(
            content=piece.text, thinking=piece.thinking or UNSET, tool_calls=piece.calls or UNSET
        )
        return ChatLine(**self._common(piece), message=message)


class GenerateLines(LineMaker):
    """The lines of `POST /api/generate`.

    `prompt` returns the tokens of the prompt; if there are none, the answer has no `context`.
    """

    def __init__(self, model: str, prompt: Callable[[], list[int]]) -> None:
        super().__init__(model)
        self._prompt = prompt

    def line(self, piece: Piece) -> GenerateLine:
        """A piece of the text."""
        thinking = piece.thinking or UNSET
        return GenerateLine(**self._common(piece), response=piece.text, thinking=thinking)

    def last(self, piece: Piece, metrics: Metrics, tokens: list[int]) -> msgspec.Struct:
        """The last line, with the tokens of the prompt and the answer."""
        prompt = self._prompt()
        context = [*prompt, *tokens] if prompt else UNSET
        return structs.replace(super().last(piece, metrics, tokens), context=context)


class AnswerLines:
    """The stream of one answer, a JSON object a line; calls come whole, one a line."""

    def __init__(self, collected: AnswerBuilder, maker: LineMaker, began: float) -> None:
        """`began` is when the request came, on the monotonic clock."""
        self._collected = collected
        self._maker = maker
        self._began = began
        self._encoder = msgspec.json.Encoder()
        self._tokens: list[int] = []
        self._sent_calls = 0

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """Return the lines of the events."""
        lines: list[msgspec.Struct] = []
        for event in events:
            # The builder joins calls; text is not stored twice.
            if not isinstance(event, Delta | ReasoningDelta):
                self._collected.take(prompt, [event])
            if not isinstance(event, Started | PromptAdvanced | Finished):
                self._tokens += event.token_ids
            if isinstance(event, ToolCallStarted | Finished):
                # A call has ended once there is another one, or the answer has ended.
                lines += self._ended_calls(is_end=isinstance(event, Finished))
            match event:
                case Delta():
                    if event.text or event.logprobs:
                        lines.append(self._maker.line(Piece(event.text, logprobs=_logprobs(event))))
                case ReasoningDelta():
                    if event.text:
                        lines.append(self._maker.line(Piece(thinking=event.text)))
                case _:
                    pass
        return self._encoder.encode_lines(lines) if lines else b""

    def end(self) -> bytes:
        """The last line."""
        metrics = metrics_of(self._collected, self._began)
        return self._encoder.encode(self._maker.last(Piece(), metrics, self._tokens)) + b"\n"

    def _ended_calls(self, *, is_end: bool) -> list[msgspec.Struct]:
        calls = self._collected.answers[0].calls
        ended = calls if is_end else calls[:-1]
        lines = [
            self._maker.line(Piece(calls=[_message_call(call, number)]))
            for number, call in enumerate(ended)
            if number >= self._sent_calls
        ]
        self._sent_calls = len(ended)
        return lines


def whole_answer(collected: AnswerBuilder, maker: LineMaker, began: float) -> msgspec.Struct:
    """The answer in one piece."""
    (answer,) = collected.answers
    piece = Piece(
        "".join(answer.text),
        "".join(answer.reasoning),
        [_message_call(call, number) for number, call in enumerate(answer.calls)],
        token_logprobs(answer.logprobs, answer.token_bytes),
    )
    return maker.last(piece, metrics_of(collected, began), answer.token_ids)


def metrics_of(collected: AnswerBuilder, began: float) -> Metrics:
    """The token counts and durations of a complete answer."""
    end = collected.total
    return Metrics(
        done_reason="length" if end.reason is FinishReason.LENGTH else "stop",
        total_duration=_nanoseconds(time.monotonic() - began),
        load_duration=_nanoseconds(collected.load_seconds),
        prompt_eval_count=collected.prompt_tokens,
        prompt_eval_cached_count=collected.cached_tokens,
        prompt_eval_duration=_nanoseconds(end.prompt_seconds),
        eval_count=end.completion_tokens,
        eval_duration=_nanoseconds(end.decode_seconds),
    )


def _message_call(call: ToolCall, index: int) -> MessageCall:
    """A call as a message has it, its arguments as an object."""
    arguments = call.arguments if call.arguments.strip() else "{}"
    return MessageCall(call.id, FunctionCall(index, call.name, msgspec.Raw(arguments.encode())))


def _logprobs(delta: Delta) -> list[TokenLogprob] | None:
    """The log-probabilities of a line; None if the request asked for none."""
    if delta.logprobs is None:
        return None
    return token_logprobs(delta.logprobs, delta.token_bytes)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
