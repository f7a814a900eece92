"""From a model's events to the answer of a chat, whole and in chunks."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from ingle.backends.base.conversation import ToolCall
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)

from ...answer_builder import AnswerBuilder, CollectedAnswer
from .answer_style import AnswerStyle
from .chunk_frames import Piece
from .logprobs import chat_logprobs
from .timings import Timings, timings_of
from .types import (
    AssistantMessage,
    CalledFunction,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatLogprobs,
    ChoiceDelta,
    ChunkChoice,
    FinishWord,
    FunctionDelta,
    MessageToolCall,
    ToolCallChunk,
    Usage,
)
from .usage import fingerprint, finish_word, usage_of


class ChatAnswer:
    """The stream of a chat, which opens each choice with its role."""

    def __init__(self, collected: AnswerBuilder, style: AnswerStyle) -> None:
        self._collected = collected
        self._style = style
        self._fingerprint = fingerprint(collected)
        self._written = 0

    @property
    def counts_on(self) -> bool:
        """Whether every chunk counts the tokens."""
        return self._style.counts_on

    def chunks(self, prompt: int, event: Event) -> Iterator[ChatCompletionChunk]:
        """Role, reasoning, content, calls and the end."""
        self._collected.count(event)
        match event:
            case Started():
                for index in range(self._collected.job.request.n):
                    yield self._chunk(index, ChoiceDelta(role="assistant", content=""))
            case Finished():
                self._collected.answers[event.index].take(event)
                word = _finish_word(event.reason, self._style)
                yield self._chunk(event.index, ChoiceDelta(), word, timings=self._timings())
            case Delta() | ReasoningDelta() | ToolCallStarted() | ToolCallDelta():
                self._written += len(event.token_ids)
                logprobs = chat_logprobs(event) if isinstance(event, Delta) else None
                delta = self._delta(event)
                if delta is not None and (delta.content != "" or logprobs is not None):
                    yield self._chunk(event.index, delta, logprobs=logprobs)

    def piece(self, prompt: int, event: Piece) -> ChatCompletionChunk | None:
        """The chunk of a piece that says nothing else."""
        delta = self._delta(event)
        return None if delta is None else self._chunk(event.index, delta)

    def usage_chunk(self) -> ChatCompletionChunk | None:
        """No choices, only the count."""
        if not self._style.include_usage:
            return None
        return self._envelope([], usage_of(self._collected), timings_of(self._collected))

    def _delta(self, event: Piece | ToolCallStarted) -> ChoiceDelta | None:
        """What the event adds; None where that is not told."""
        match event:
            case Delta():
                return ChoiceDelta(content=event.text)
            case ReasoningDelta():
                told = self._style.tells_reasoning
                return ChoiceDelta(reasoning_content=event.text) if told else None
            case ToolCallStarted() | ToolCallDelta():
                if not self._style.legacy:
                    return ChoiceDelta(tool_calls=[_call_chunk(event)])
                return ChoiceDelta(function_call=_function(event)) if event.call == 0 else None

    def _chunk(
        self,
        index: int,
        delta: ChoiceDelta,
        reason: FinishWord | None = None,
        logprobs: ChatLogprobs | None = None,
        timings: Timings | UnsetType = UNSET,
    ) -> ChatCompletionChunk:
        choice = ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        usage = None if self._style.include_usage else UNSET
        if self._style.counts_on:
            usage = usage_of(self._collected, written=self._written)
        return self._envelope([choice], usage, timings)

    def _envelope(
        self,
        choices: list[ChunkChoice],
        usage: Usage | UnsetType | None,
        timings: Timings | UnsetType,
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._collected.job.id,
            created=self._collected.created,
            model=self._collected.model.name,
            system_fingerprint=self._fingerprint,
            choices=choices,
            usage=usage,
            service_tier=self._style.service_tier or UNSET,
            timings=timings,
        )

    def _timings(self) -> Timings | UnsetType:
        """Those of the whole, in the last chunk unless another follows that counts."""
        ended = len(self._collected.ended) == len(self._collected.answers)
        return timings_of(self._collected) if ended and not self._style.include_usage else UNSET


def chat_completion(collected: AnswerBuilder, style: AnswerStyle) -> ChatCompletion:
    """A whole chat."""
    return ChatCompletion(
        id=collected.job.id,
        created=collected.created,
        model=collected.model.name,
        choices=[_choice(index, answer, style) for index, answer in enumerate(collected.answers)],
        usage=usage_of(collected),
        system_fingerprint=fingerprint(collected),
        service_tier=style.service_tier or UNSET,
        timings=timings_of(collected),
    )


def _choice(index: int, answer: CollectedAnswer, style: AnswerStyle) -> ChatChoice:
    text = "".join(answer.text)
    whole = Delta("", index, text, [], answer.logprobs, answer.token_bytes)
    return ChatChoice(
        index=index,
        message=_message(text, answer, style),
        logprobs=chat_logprobs(whole) if style.tells_logprobs else None,
        finish_reason=_finish_word(answer.reason, style),
    )


def _message(text: str, answer: CollectedAnswer, style: AnswerStyle) -> AssistantMessage:
    calls: list[ToolCall] = answer.calls
    told = [
        MessageToolCall(id=call.id, function=CalledFunction(call.name, call.arguments))
        for call in calls
    ]
    return AssistantMessage(
        content=None if calls and not text else text,
        reasoning_content="".join(answer.reasoning if style.tells_reasoning else ()) or UNSET,
        tool_calls=told if told and not style.legacy else UNSET,
        function_call=told[0].function if told and style.legacy else UNSET,
    )


def _finish_word(reason: FinishReason, style: AnswerStyle) -> FinishWord:
    if style.legacy and reason is FinishReason.TOOL_CALLS:
        return "function_call"
    return finish_word(reason)


def _call_chunk(event: ToolCallStarted | ToolCallDelta) -> ToolCallChunk:
    if isinstance(event, ToolCallDelta):
        return ToolCallChunk(index=event.call, function=_function(event))
    return ToolCallChunk(
        index=event.call, id=event.call_id, type="function", function=_function(event)
    )


def _function(event: ToolCallStarted | ToolCallDelta) -> FunctionDelta:
    if isinstance(event, ToolCallDelta):
        return FunctionDelta(arguments=event.arguments)
    return FunctionDelta(name=event.name, arguments="")
