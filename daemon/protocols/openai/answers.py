"""From a model's events to OpenAI's answers, whole and in chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from ingle.backends.base import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)

from ..collected import Collected, CollectedAnswer
from .logprobs import CompletionScores, chat_logprobs
from .types import (
    AssistantMessage,
    CalledFunction,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatLogprobs,
    ChoiceDelta,
    ChunkChoice,
    Completion,
    CompletionChoice,
    CompletionLogprobs,
    CompletionTokensDetails,
    FinishWord,
    FunctionDelta,
    MessageToolCall,
    PromptTokensDetails,
    ToolCallChunk,
    Usage,
)


def usage_of(collected: Collected) -> Usage:
    """The tokens of a whole job."""
    prompt, completion = collected.prompt_tokens, collected.completion_tokens
    drafted, accepted = collected.drafted_tokens, collected.accepted_tokens
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=PromptTokensDetails(collected.cached_tokens),
        completion_tokens_details=CompletionTokensDetails(
            reasoning_tokens=collected.reasoning_tokens,
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=drafted - accepted,
        ),
    )


class Answer(Protocol):
    """Turns the events of one job into the chunks of a stream; call `chunks` for each event.

    A stream may leave out the events that carry text alone and use `text_chunk`.
    """

    def chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """What the event adds to a stream."""
        ...

    def text_chunk(self, prompt: int, index: int, text: str) -> msgspec.Struct:
        """The chunk for text alone."""
        ...

    def usage_chunk(self) -> msgspec.Struct | None:
        """The last chunk of a stream that was asked to count."""
        ...


class ChatAnswer:
    """The stream of a chat, which opens each choice with its role."""

    def __init__(self, collected: Collected, *, include_usage: bool = False) -> None:
        self._collected = collected
        self._include_usage = include_usage
        self._fingerprint = fingerprint(collected)

    def chunks(self, prompt: int, event: Event) -> Iterator[ChatCompletionChunk]:
        """Role, reasoning, content, calls and the end."""
        self._collected.count(event)
        match event:
            case Started():
                for index in range(self._collected.job.request.n):
                    yield self._chunk(index, ChoiceDelta(role="assistant", content=""))
            case Delta():
                logprobs = chat_logprobs(event)
                if logprobs is not None:
                    delta = ChoiceDelta(content=event.text)
                    yield self._chunk(event.index, delta, logprobs=logprobs)
                elif event.text:
                    yield self.text_chunk(prompt, event.index, event.text)
            case ReasoningDelta():
                yield self._chunk(event.index, ChoiceDelta(reasoning_content=event.text))
            case ToolCallStarted() | ToolCallDelta():
                yield self._chunk(event.index, ChoiceDelta(tool_calls=[_call_chunk(event)]))
            case Finished():
                self._collected.answers[event.index].take(event)
                yield self._chunk(event.index, ChoiceDelta(), finish_word(event.reason))

    def text_chunk(self, prompt: int, index: int, text: str) -> ChatCompletionChunk:
        """A piece of content."""
        return self._chunk(index, ChoiceDelta(content=text))

    def usage_chunk(self) -> ChatCompletionChunk | None:
        """No choices, only the count."""
        return self._envelope([], usage_of(self._collected)) if self._include_usage else None

    def _chunk(
        self,
        index: int,
        delta: ChoiceDelta,
        reason: FinishWord | None = None,
        logprobs: ChatLogprobs | None = None,
    ) -> ChatCompletionChunk:
        choice = ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        return self._envelope([choice], None if self._include_usage else UNSET)

    def _envelope(
        self, choices: list[ChunkChoice], usage: Usage | UnsetType | None
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._collected.job.id,
            created=self._collected.created,
            model=self._collected.model.name,
            system_fingerprint=self._fingerprint,
            choices=choices,
            usage=usage,
        )


class CompletionAnswer:
    """The stream of plain prompts; choice `i * n + j` is answer j to prompt i."""

    def __init__(
        self, collected: Collected, *, include_usage: bool = False, echo: bool = False
    ) -> None:
        self._collected = collected
        self._include_usage = include_usage
        self._echo = echo
        self._fingerprint = fingerprint(collected)
        self._scores = [CompletionScores() for _ in collected.answers]

    def chunks(self, prompt: int, event: Event) -> Iterator[Completion]:
        """Text and finish chunks; with `echo` the prompt comes first."""
        self._collected.count(event)
        first = prompt * self._collected.job.request.n
        match event:
            case Started():
                text = self._collected.job.prompts[prompt]
                if self._echo and isinstance(text, str):
                    for index in range(first, first + self._collected.job.request.n):
                        yield self._chunk(index, text)
            case Delta():
                logprobs = self._scores[first + event.index].take(event)
                if logprobs is not None:
                    yield self._chunk(first + event.index, event.text, logprobs=logprobs)
                elif event.text:
                    yield self.text_chunk(prompt, event.index, event.text)
            case Finished():
                self._collected.answers[first + event.index].take(event)
                yield self._chunk(first + event.index, "", finish_word(event.reason))
            case _:  # a prompt has no reasoning and no calls
                return

    def text_chunk(self, prompt: int, index: int, text: str) -> Completion:
        """A piece of text."""
        return self._chunk(prompt * self._collected.job.request.n + index, text)

    def usage_chunk(self) -> Completion | None:
        """No choices, only the count."""
        return self._envelope([], usage_of(self._collected)) if self._include_usage else None

    def _chunk(
        self,
        index: int,
        text: str,
        reason: FinishWord | None = None,
        logprobs: CompletionLogprobs | None = None,
    ) -> Completion:
        choice = CompletionChoice(index=index, text=text, logprobs=logprobs, finish_reason=reason)
        return self._envelope([choice], None if self._include_usage else UNSET)

    def _envelope(
        self, choices: list[CompletionChoice], usage: Usage | UnsetType | None
    ) -> Completion:
        return Completion(
            id=self._collected.job.id,
            created=self._collected.created,
            model=self._collected.model.name,
            choices=choices,
            usage=usage,
            system_fingerprint=self._fingerprint,
        )


def chat_completion(collected: Collected) -> ChatCompletion:
    """A whole chat."""
    return ChatCompletion(
        id=collected.job.id,
        created=collected.created,
        model=collected.model.name,
        choices=[
            _chat_choice(collected, index, answer) for index, answer in enumerate(collected.answers)
        ],
        usage=usage_of(collected),
        system_fingerprint=fingerprint(collected),
    )


def _chat_choice(collected: Collected, index: int, answer: CollectedAnswer) -> ChatChoice:
    calls = [
        MessageToolCall(id=call.id, function=CalledFunction(call.name, call.arguments))
        for call in answer.calls
    ]
    text, reasoning = "".join(answer.text), "".join(answer.reasoning)
    whole = Delta("", index, text, [], answer.logprobs, answer.token_bytes)
    return ChatChoice(
        index=index,
        message=AssistantMessage(
            content=None if calls and not text else text,
            reasoning_content=reasoning or UNSET,
            tool_calls=calls or UNSET,
        ),
        logprobs=None if collected.job.request.logprobs is None else chat_logprobs(whole),
        finish_reason=finish_word(answer.reason),
    )


def completion(collected: Collected, *, echo: bool = False) -> Completion:
    """All plain prompts, each with its text."""
    choices: list[CompletionChoice] = []
    for index, answer in enumerate(collected.answers):
        prompt = collected.job.prompts[index // collected.job.request.n]
        echoed = prompt if echo and isinstance(prompt, str) else ""
        text = "".join(answer.text)
        scores = CompletionScores()
        scores.take(Delta("", index, text, [], answer.logprobs, answer.token_bytes))
        choices.append(
            CompletionChoice(
                index=index,
                text=echoed + text,
                logprobs=None if collected.job.request.logprobs is None else scores.whole(),
                finish_reason=finish_word(answer.reason),
            )
        )
    return Completion(
        id=collected.job.id,
        created=collected.created,
        model=collected.model.name,
        choices=choices,
        usage=usage_of(collected),
        system_fingerprint=fingerprint(collected),
    )


def finish_word(reason: FinishReason) -> FinishWord:
    """OpenAI's word; it has none for an answer that was cancelled."""
    match reason:
        case FinishReason.LENGTH:
            return "length"
        case FinishReason.TOOL_CALLS:
            return "tool_calls"
        case FinishReason.STOP | FinishReason.CANCELLED:
            return "stop"


def fingerprint(collected: Collected) -> str:
    """Changes with everything that may change the answer to the same seed."""
    model, info = collected.model, collected.info
    parts = (model.name, model.sha256, info.engine, info.device, info.context, info.slots)
    return "fp_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:10]


def _call_chunk(event: ToolCallStarted | ToolCallDelta) -> ToolCallChunk:
    if isinstance(event, ToolCallDelta):
        return ToolCallChunk(index=event.call, function=FunctionDelta(arguments=event.arguments))
    return ToolCallChunk(
        index=event.call,
        id=event.call_id,
        type="function",
        function=FunctionDelta(name=event.name, arguments=""),
    )
