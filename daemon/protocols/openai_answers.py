"""From a model's events to OpenAI's answers, whole and in chunks."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from ingle.backends.base import Delta, Event, Finished, FinishReason, Started

from ..lifecycle import Lease
from .openai_logprobs import CompletionScores, chat_logprobs
from .openai_requests import Job
from .openai_types import (
    AssistantMessage,
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
    PromptTokensDetails,
    TokenLogprob,
    Usage,
)


class Tally:
    """Counts the tokens of all prompts of a job."""

    def __init__(self) -> None:
        self._prompt = 0
        self._cached = 0
        self._completion = 0
        self._drafted = 0
        self._accepted = 0

    def add(self, event: Event) -> None:
        """Count what the event says."""
        if isinstance(event, Started):
            self._prompt += event.prompt_tokens
            self._cached += event.cached_tokens
        elif isinstance(event, Finished):
            self._completion += event.completion_tokens
            self._drafted += event.drafted_tokens
            self._accepted += event.accepted_tokens

    def usage(self) -> Usage:
        """The sum."""
        return Usage(
            prompt_tokens=self._prompt,
            completion_tokens=self._completion,
            total_tokens=self._prompt + self._completion,
            prompt_tokens_details=PromptTokensDetails(self._cached),
            completion_tokens_details=CompletionTokensDetails(
                accepted_prediction_tokens=self._accepted,
                rejected_prediction_tokens=self._drafted - self._accepted,
            ),
        )


class Answer(Protocol):
    """Turns the events of one job into one protocol's answer; call `chunks` for each event.

    A stream may leave out the events that carry text alone and use `text_chunk`.
    """

    def chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """What the event adds to a stream."""
        ...

    def text_chunk(self, prompt: int, index: int, text: str) -> msgspec.Struct:
        """The chunk for text alone."""
        ...

    def usage_chunk(self) -> msgspec.Struct:
        """The last chunk of a stream that was asked to count."""
        ...

    def whole(self) -> msgspec.Struct:
        """The answer in one piece."""
        ...


class ChatAnswer:
    """The answer to a chat; a streamed one opens each choice with its role."""

    def __init__(self, job: Job, lease: Lease) -> None:
        self._job = job
        self._created = int(time.time())
        self._model = lease.model.name
        self._fingerprint = fingerprint(lease)
        self._tally = Tally()
        self._texts: list[list[str]] = [[] for _ in range(job.n)]
        self._logprobs: list[list[TokenLogprob]] = [[] for _ in range(job.n)]
        self._reasons: list[FinishWord] = ["stop"] * job.n

    def chunks(self, prompt: int, event: Event) -> Iterator[ChatCompletionChunk]:
        """Role, content and finish chunks."""
        self._tally.add(event)
        match event:
            case Started():
                for index in range(self._job.n):
                    yield self._chunk(index, ChoiceDelta(role="assistant", content=""))
            case Delta():
                self._texts[event.index].append(event.text)
                logprobs = chat_logprobs(event)
                if logprobs is not None:
                    self._logprobs[event.index] += logprobs.content
                    delta = ChoiceDelta(content=event.text)
                    yield self._chunk(event.index, delta, logprobs=logprobs)
                elif event.text:
                    yield self.text_chunk(prompt, event.index, event.text)
            case Finished():
                self._reasons[event.index] = finish_word(event.reason)
                yield self._chunk(event.index, ChoiceDelta(), self._reasons[event.index])
            case _:  # reasoning and calls
                return

    def text_chunk(self, prompt: int, index: int, text: str) -> ChatCompletionChunk:
        """A piece of content."""
        return self._chunk(index, ChoiceDelta(content=text))

    def usage_chunk(self) -> ChatCompletionChunk:
        """No choices, only the count."""
        return self._envelope([], self._tally.usage())

    def whole(self) -> ChatCompletion:
        """All choices with their texts."""
        scored = self._job.logprobs
        choices = [
            ChatChoice(
                index=index,
                message=AssistantMessage("assistant", "".join(texts)),
                logprobs=None if scored is None else ChatLogprobs(self._logprobs[index]),
                finish_reason=reason,
            )
            for index, (texts, reason) in enumerate(zip(self._texts, self._reasons, strict=True))
        ]
        return ChatCompletion(
            id=self._job.id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=self._tally.usage(),
            system_fingerprint=self._fingerprint,
        )

    def _chunk(
        self,
        index: int,
        delta: ChoiceDelta,
        reason: FinishWord | None = None,
        logprobs: ChatLogprobs | None = None,
    ) -> ChatCompletionChunk:
        choice = ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        return self._envelope([choice], None if self._job.include_usage else UNSET)

    def _envelope(
        self, choices: list[ChunkChoice], usage: Usage | UnsetType | None
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self._job.id,
            created=self._created,
            model=self._model,
            system_fingerprint=self._fingerprint,
            choices=choices,
            usage=usage,
        )


class CompletionAnswer:
    """The answer to plain prompts; choice `i * n + j` is answer j to prompt i."""

    def __init__(self, job: Job, lease: Lease) -> None:
        count = job.n * len(job.prompts)
        self._job = job
        self._created = int(time.time())
        self._model = lease.model.name
        self._fingerprint = fingerprint(lease)
        self._tally = Tally()
        self._texts: list[list[str]] = [[] for _ in range(count)]
        self._scores = [CompletionScores() for _ in range(count)]
        self._reasons: list[FinishWord] = ["stop"] * count

    def chunks(self, prompt: int, event: Event) -> Iterator[Completion]:
        """Text and finish chunks; with `echo` the prompt comes first."""
        self._tally.add(event)
        first = prompt * self._job.n
        match event:
            case Started():
                text = self._job.prompts[prompt]
                if self._job.echo and isinstance(text, str):
                    for index in range(first, first + self._job.n):
                        self._texts[index].append(text)
                        yield self._chunk(index, text)
            case Delta():
                self._texts[first + event.index].append(event.text)
                logprobs = self._scores[first + event.index].take(event)
                if logprobs is not None:
                    yield self._chunk(first + event.index, event.text, logprobs=logprobs)
                elif event.text:
                    yield self.text_chunk(prompt, event.index, event.text)
            case Finished():
                self._reasons[first + event.index] = finish_word(event.reason)
                yield self._chunk(first + event.index, "", self._reasons[first + event.index])
            case _:  # a prompt has no reasoning and no calls
                return

    def text_chunk(self, prompt: int, index: int, text: str) -> Completion:
        """A piece of text."""
        return self._chunk(prompt * self._job.n + index, text)

    def usage_chunk(self) -> Completion:
        """No choices, only the count."""
        return self._envelope([], self._tally.usage())

    def whole(self) -> Completion:
        """All choices with their texts."""
        scored = self._job.logprobs
        choices = [
            CompletionChoice(
                index=index,
                text="".join(texts),
                logprobs=None if scored is None else self._scores[index].whole(),
                finish_reason=reason,
            )
            for index, (texts, reason) in enumerate(zip(self._texts, self._reasons, strict=True))
        ]
        return self._envelope(choices, self._tally.usage())

    def _chunk(
        self,
        index: int,
        text: str,
        reason: FinishWord | None = None,
        logprobs: CompletionLogprobs | None = None,
    ) -> Completion:
        choice = CompletionChoice(index=index, text=text, logprobs=logprobs, finish_reason=reason)
        return self._envelope([choice], None if self._job.include_usage else UNSET)

    def _envelope(
        self, choices: list[CompletionChoice], usage: Usage | UnsetType | None
    ) -> Completion:
        return Completion(
            id=self._job.id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage,
            system_fingerprint=self._fingerprint,
        )


def finish_word(reason: FinishReason) -> FinishWord:
    """OpenAI's word; it has none for an answer that was cancelled."""
    return "length" if reason is FinishReason.LENGTH else "stop"


def fingerprint(lease: Lease) -> str:
    """Changes with everything that may change the answer to the same seed."""
    model, info = lease.model, lease.info
    parts = (model.name, model.sha256, info.engine, info.device, info.context, info.slots)
    return "fp_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:10]
