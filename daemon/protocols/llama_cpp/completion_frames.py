"""From a model's events to the bytes of llama-server's streams."""

from __future__ import annotations

import time

import msgspec
from msgspec import UNSET

from ingle.backends.base.events import Delta, Event, Finished, FinishReason, Started

from ...http.sse_writer import encode_event
from ..answer_builder import AnswerBuilder
from ..timings import Timings
from .answers import answer_timings, completion, completion_probabilities, only_fields
from .types import Chunk, Completion, GenerationFields, PromptProgress


class CompletionFrames:
    """Encodes the chunks of one request; each answer ends with one that tells everything."""

    def __init__(self, collected: AnswerBuilder, body: GenerationFields) -> None:
        self._collected = collected
        self._body = body
        self._encoder = msgspec.json.Encoder()
        self._prompts = [(0, 0)] * max(1, len(collected.job.prompts))
        self._predicted = [0] * len(collected.answers)
        self._began = time.monotonic()
        self._first: dict[int, float] = {}

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """What the events add to the stream."""
        parts: list[bytes] = []
        for event in events:
            match event:
                case Started():
                    self._collected.count(event)
                    self._prompts[prompt] = (event.prompt_tokens, event.cached_tokens)
                    if self._body.return_progress:
                        parts.append(self._frame(self._progress(prompt)))
                case Delta():
                    if event.text or event.token_ids:
                        parts.append(self._frame(self._chunk(prompt, event)))
                case Finished():
                    parts.append(self._end(prompt, event))
                case _:  # a prompt has no reasoning and no calls
                    pass
        return b"".join(parts)

    def end(self) -> bytes:
        """Nothing: each answer has said that it ended."""
        return b""

    def _number(self, prompt: int, index: int) -> int:
        return prompt * self._collected.job.request.n + index

    def _chunk(self, prompt: int, event: Delta) -> Chunk:
        number = self._number(prompt, event.index)
        self._predicted[number] += len(event.token_ids)
        self._first.setdefault(number, time.monotonic())
        if "\n" in event.text:
            self._collected.answers[number].text.append("\n")
        scores = completion_probabilities(event.logprobs or [], event.token_bytes or {})
        return Chunk(
            index=number,
            content=event.text,
            tokens=event.token_ids,
            tokens_predicted=self._predicted[number],
            tokens_evaluated=self._prompts[prompt][0],
            timings=self._timings(prompt, number) if self._body.timings_per_token else UNSET,
            completion_probabilities=scores or UNSET,
        )

    def _timings(self, prompt: int, number: int) -> Timings:
        first = self._first[number]
        so_far = Finished(
            *("", 0, FinishReason.STOP, self._predicted[number]),
            prompt_seconds=first - self._began,
            decode_seconds=time.monotonic() - first,
        )
        return answer_timings(self._prompts[prompt], so_far)

    def _progress(self, prompt: int) -> Chunk:
        total, cached = self._prompts[prompt]
        return Chunk(
            index=self._number(prompt, 0),
            content="",
            tokens=[],
            tokens_predicted=0,
            tokens_evaluated=total,
            prompt_progress=PromptProgress(total, cached, cached, 0),
        )

    def _end(self, prompt: int, event: Finished) -> bytes:
        number = self._number(prompt, event.index)
        self._collected.answers[number].take(event)
        answer: Completion = completion(
            self._collected, number, self._prompts[prompt], streamed=True
        )
        return self._frame(only_fields(answer, self._body.response_fields))

    def _frame(self, chunk: object) -> bytes:
        return encode_event(self._encoder.encode(chunk))
