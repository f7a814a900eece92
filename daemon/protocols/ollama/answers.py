"""From a model's events to Ollama's lines, streamed and whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType, structs

from ingle.backends.base.conversation import ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    TokenLogprobs,
    ToolCallStarted,
)

from ..answer_builder import AnswerBuilder
from .types import (
    Alternative,
    AnswerMessage,
    ChatLine,
    FunctionCall,
    GenerateLine,
    Logprob,
    MessageCall,
    Metrics,
    now,
)

NANOSECONDS = 1e9


class LineMaker(Protocol):
    """Puts what one line says into the words of one route."""

    def line(
        self,
        text: str,
        *,
        thinking: str = "",
        calls: list[MessageCall] | None = None,
        logprobs: list[Logprob] | None = None,
    ) -> msgspec.Struct:
        """A line of an answer that goes on."""
        ...

    def last(self, line: msgspec.Struct, metrics: Metrics, tokens: list[int]) -> msgspec.Struct:
        """The line as the end of the answer, whose tokens these are."""
        ...


class ChatLines:
    """The lines of `POST /api/chat` for a model of this name."""

    def __init__(self, model: str) -> None:
        self._model = model

    def line(
        self,
        text: str,
        *,
        thinking: str = "",
        calls: list[MessageCall] | None = None,
        logprobs: list[Logprob] | None = None,
    ) -> ChatLine:
        """A piece of the message."""
        message = AnswerMessage(content=text, thinking=thinking or UNSET, tool_calls=calls or UNSET)
        return ChatLine(
            model=self._model,
            created_at=now(),
            message=message,
            done=False,
            logprobs=logprobs or UNSET,
        )

    def last(self, line: msgspec.Struct, metrics: Metrics, tokens: list[int]) -> msgspec.Struct:
        """The end, with its numbers."""
        return structs.replace(line, done=True, **structs.asdict(metrics))


class GenerateLines:
    """The lines of `POST /api/generate` for a model of this name.

    `prompt` gives the tokens of the prompt; where there are none, the answer tells no tokens.
    """

    def __init__(self, model: str, prompt: Callable[[], list[int]]) -> None:
        self._model = model
        self._prompt = prompt

    def line(
        self,
        text: str,
        *,
        thinking: str = "",
        calls: list[MessageCall] | None = None,
        logprobs: list[Logprob] | None = None,
    ) -> GenerateLine:
        """A piece of the text."""
        return GenerateLine(
            model=self._model,
            created_at=now(),
            response=text,
            thinking=thinking or UNSET,
            done=False,
            logprobs=logprobs or UNSET,
        )

    def last(self, line: msgspec.Struct, metrics: Metrics, tokens: list[int]) -> msgspec.Struct:
        """The end, with its numbers and the conversation's tokens."""
        prompt = self._prompt()
        context: list[int] | UnsetType = [*prompt, *tokens] if prompt else UNSET
        return structs.replace(line, done=True, context=context, **structs.asdict(metrics))


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
        """What the events add to the stream."""
        lines: list[msgspec.Struct] = []
        for event in events:
            # Calls are put together there; text is not kept twice.
            if not isinstance(event, Delta | ReasoningDelta):
                self._collected.take(prompt, [event])
            if not isinstance(event, Started | Finished):
                self._tokens += event.token_ids
            if isinstance(event, ToolCallStarted | Finished):
                # A call has ended once there is another one, or the answer has ended.
                lines += self._ended_calls(all_of_them=isinstance(event, Finished))
            match event:
                case Delta():
                    if event.text or event.logprobs:
                        lines.append(self._maker.line(event.text, logprobs=logprobs_of(event)))
                case ReasoningDelta():
                    if event.text:
                        lines.append(self._maker.line("", thinking=event.text))
                case _:
                    pass
        return self._encoder.encode_lines(lines) if lines else b""

    def end(self) -> bytes:
        """The last line."""
        metrics = metrics_of(self._collected, self._began)
        line = self._maker.last(self._maker.line(""), metrics, self._tokens)
        return self._encoder.encode(line) + b"\n"

    def _ended_calls(self, *, all_of_them: bool) -> list[msgspec.Struct]:
        calls = self._collected.answers[0].calls
        ended = calls if all_of_them else calls[:-1]
        lines = [
            self._maker.line("", calls=[message_call(call, number)])
            for number, call in enumerate(ended)
            if number >= self._sent_calls
        ]
        self._sent_calls = len(ended)
        return lines


def whole_answer(collected: AnswerBuilder, maker: LineMaker, began: float) -> msgspec.Struct:
    """The answer in one piece."""
    (answer,) = collected.answers
    logprobs = _logprobs(answer.logprobs, answer.token_bytes) if answer.logprobs else None
    line = maker.line(
        "".join(answer.text),
        thinking="".join(answer.reasoning),
        calls=[message_call(call, number) for number, call in enumerate(answer.calls)],
        logprobs=logprobs,
    )
    return maker.last(line, metrics_of(collected, began), answer.token_ids)


def metrics_of(collected: AnswerBuilder, began: float) -> Metrics:
    """What was counted for an answer that has ended."""
    (answer,) = collected.answers
    end = answer.finished
    return Metrics(
        done_reason="length" if answer.reason is FinishReason.LENGTH else "stop",
        total_duration=_nanoseconds(time.monotonic() - began),
        load_duration=_nanoseconds(collected.load_seconds),
        prompt_eval_count=collected.prompt_tokens,
        prompt_eval_duration=_nanoseconds(end.prompt_seconds) if end is not None else 0,
        eval_count=collected.completion_tokens,
        eval_duration=_nanoseconds(end.decode_seconds) if end is not None else 0,
    )


def message_call(call: ToolCall, index: int) -> MessageCall:
    """A call as a message has it, its arguments as an object."""
    arguments = call.arguments if call.arguments.strip() else "{}"
    return MessageCall(call.id, FunctionCall(index, call.name, msgspec.Raw(arguments.encode())))


def logprobs_of(delta: Delta) -> list[Logprob] | None:
    """What a line tells about its tokens; None where nothing was asked for."""
    if delta.logprobs is None:
        return None
    return _logprobs(delta.logprobs, delta.token_bytes or {})


def _logprobs(tokens: list[TokenLogprobs], pieces: dict[int, bytes]) -> list[Logprob]:
    found: list[Logprob] = []
    for token in tokens:
        chosen = _alternative(token.token_id, token.logprob, pieces)
        others = [_alternative(other, logprob, pieces) for other, logprob in token.top]
        found.append(Logprob(chosen.token, chosen.logprob, chosen.bytes, others))
    return found


def _alternative(token_id: int, logprob: float, pieces: dict[int, bytes]) -> Alternative:
    data = pieces.get(token_id, b"")
    return Alternative(data.decode(errors="replace"), logprob, list(data))


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
