"""From a model's events to the answer of a chat, whole and in chunks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, UnsetType

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
from ...timings import Timings
from ...token_logprobs import token_logprobs
from .answer_fields import FINISH_WORDS, chat_logprobs, envelope, timings_of, usage_of
from .chunk_stream import ChunkStream, Piece
from .request_types import ChatCompletionRequest
from .types import (
    AnsweredCall,
    AnsweredFunction,
    AssistantMessage,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatLogprobs,
    ChoiceDelta,
    ChunkChoice,
    FinishWord,
    FunctionDelta,
    ToolCallChunk,
    Usage,
)


class ChatStream(ChunkStream):
    """The stream of a chat, which opens each choice with its role."""

    def __init__(self, collected: AnswerBuilder, body: ChatCompletionRequest) -> None:
        super().__init__(collected, body)
        self._body = body

    def _chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """Role, reasoning, content, calls and the end."""
        self._collected.count(event)
        match event:
            case Started():
                for index in range(self._collected.job.request.n):
                    yield self._chunk(index, ChoiceDelta(role="assistant", content=""))
            case Finished():
                self._collected.answers[event.index].take(event)
                yield self._chunk(event.index, ChoiceDelta(), _finish_word(event, self._body))
            case Delta() | ReasoningDelta() | ToolCallStarted() | ToolCallDelta():
                self._written += len(event.token_ids)
                logprobs = chat_logprobs(event) if isinstance(event, Delta) else None
                delta = self._delta(event)
                if delta is not None and (delta.content != "" or logprobs is not None):
                    yield self._chunk(event.index, delta, logprobs=logprobs)

    def _piece(self, prompt: int, event: Piece) -> msgspec.Struct | None:
        delta = self._delta(event)
        return None if delta is None else self._chunk(event.index, delta)

    def _delta(self, event: Piece | ToolCallStarted) -> ChoiceDelta | None:
        """What the event adds; None if the answer leaves that out."""
        match event:
            case Delta():
                return ChoiceDelta(content=event.text)
            case ReasoningDelta():
                shown = self._body.shows_reasoning
                return ChoiceDelta(reasoning_content=event.text) if shown else None
            case ToolCallStarted() | ToolCallDelta():
                if not self._body.legacy:
                    return ChoiceDelta(tool_calls=[_call_chunk(event)])
                return ChoiceDelta(function_call=_function(event)) if event.call == 0 else None

    def _chunk(
        self,
        index: int,
        delta: ChoiceDelta,
        reason: FinishWord | None = None,
        logprobs: ChatLogprobs | None = None,
    ) -> msgspec.Struct:
        choice = ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        return self._wrap(choice, is_end=reason is not None)

    def _envelope(
        self,
        choices: list[ChunkChoice],
        usage: Usage | UnsetType | None,
        timings: Timings | UnsetType,
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            **envelope(self._collected),
            choices=choices,
            usage=usage,
            service_tier=self._body.answered_tier,
            timings=timings,
        )


def chat_completion(collected: AnswerBuilder, body: ChatCompletionRequest) -> ChatCompletion:
    """A whole chat."""
    return ChatCompletion(
        **envelope(collected),
        choices=[_choice(index, answer, body) for index, answer in enumerate(collected.answers)],
        usage=usage_of(collected),
        service_tier=body.answered_tier,
        timings=timings_of(collected),
    )


def _choice(index: int, answer: CollectedAnswer, body: ChatCompletionRequest) -> ChatChoice:
    text, calls = "".join(answer.text), answer.calls
    told = [AnsweredCall(id=c.id, function=AnsweredFunction(c.name, c.arguments)) for c in calls]
    message = AssistantMessage(
        content=None if calls and not text else text,
        reasoning_content="".join(answer.reasoning if body.shows_reasoning else ()) or UNSET,
        tool_calls=told if told and not body.legacy else UNSET,
        function_call=told[0].function if told and body.legacy else UNSET,
    )
    logprobs = ChatLogprobs(token_logprobs(answer.logprobs, answer.token_bytes))
    return ChatChoice(
        index=index,
        message=message,
        logprobs=logprobs if body.logprobs else None,
        finish_reason=_finish_word(answer, body),
    )


def _finish_word(end: Finished | CollectedAnswer, body: ChatCompletionRequest) -> FinishWord:
    is_call = end.reason is FinishReason.TOOL_CALLS
    return "function_call" if body.legacy and is_call else FINISH_WORDS[end.reason]


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
