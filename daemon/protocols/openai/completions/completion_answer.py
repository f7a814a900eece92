"""From a model's events to the answer of plain prompts, whole and in chunks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UnsetType

from ingle.backends.base.conversation import Infill
from ingle.backends.base.events import Delta, Event, Finished, Started

from ...answer_builder import AnswerBuilder, CollectedAnswer
from ...job import Job
from ...timings import Timings
from .answer_fields import FINISH_WORDS, CompletionScores, envelope, timings_of, usage_of
from .chunk_stream import ChunkStream, Piece
from .request_types import PlainCompletionRequest
from .types import CompletionChoice, CompletionLogprobs, FinishWord, TextCompletion, Usage


class CompletionStream(ChunkStream):
    """The stream of plain prompts; choice `i * n + j` is answer j to prompt i."""

    def __init__(self, collected: AnswerBuilder, body: PlainCompletionRequest) -> None:
        super().__init__(collected, body)
        self._echo = bool(body.echo)
        self._scores = [CompletionScores() for _ in collected.answers]

    def _chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """Text and finish chunks; with `echo` the prompt comes first."""
        self._collected.count(event)
        first = prompt * self._collected.job.request.n
        match event:
            case Started():
                if self._echo and (text := _prompt_text(self._collected.job, prompt)):
                    for index in range(first, first + self._collected.job.request.n):
                        yield self._chunk(index, text)
            case Delta():
                self._written += len(event.token_ids)
                logprobs = self._scores[first + event.index].take(event)
                if logprobs is not None or event.text:
                    yield self._chunk(first + event.index, event.text, logprobs=logprobs)
            case Finished():
                self._collected.answers[first + event.index].take(event)
                yield self._chunk(first + event.index, "", FINISH_WORDS[event.reason])
            case _:  # a prompt has no reasoning and no calls
                return

    def _piece(self, prompt: int, event: Piece) -> msgspec.Struct | None:
        if not isinstance(event, Delta):
            return None
        return self._chunk(prompt * self._collected.job.request.n + event.index, event.text)

    def _chunk(
        self,
        index: int,
        text: str,
        reason: FinishWord | None = None,
        logprobs: CompletionLogprobs | None = None,
    ) -> msgspec.Struct:
        choice = CompletionChoice(index=index, text=text, logprobs=logprobs, finish_reason=reason)
        return self._wrap(choice, is_end=reason is not None)

    def _envelope(
        self,
        choices: list[CompletionChoice],
        usage: Usage | UnsetType | None,
        timings: Timings | UnsetType,
    ) -> TextCompletion:
        return TextCompletion(
            **envelope(self._collected), choices=choices, usage=usage, timings=timings
        )


def completion(collected: AnswerBuilder, body: PlainCompletionRequest) -> TextCompletion:
    """All plain prompts, each with its text; of several answers to one, the likeliest first."""
    written, kept = collected.job.request.n, body.n or 1
    choices: list[CompletionChoice] = []
    for prompt in range(len(collected.job.prompts)):
        answers = collected.answers[prompt * written : (prompt + 1) * written]
        if kept < written:
            answers = sorted(answers, key=_mean_logprob, reverse=True)[:kept]
        echoed = _prompt_text(collected.job, prompt) if body.echo else ""
        choices += [
            _choice(echoed, prompt * kept + number, answer, body)
            for number, answer in enumerate(answers)
        ]
    return TextCompletion(
        **envelope(collected),
        choices=choices,
        usage=usage_of(collected),
        timings=timings_of(collected),
    )


def _choice(
    echoed: str, index: int, answer: CollectedAnswer, body: PlainCompletionRequest
) -> CompletionChoice:
    scores = CompletionScores()
    scores.take(Delta("", index, "", [], answer.logprobs, answer.token_bytes))
    is_scored = body.logprobs is not None and body.logprobs is not False
    return CompletionChoice(
        index=index,
        text=echoed + "".join(answer.text),
        logprobs=scores.whole if is_scored else None,
        finish_reason=FINISH_WORDS[answer.reason],
    )


def _prompt_text(job: Job, number: int) -> str:
    """The text that `echo` puts before an answer."""
    prompt = job.prompts[number]
    if isinstance(prompt, Infill):
        return prompt.prefix
    return prompt if isinstance(prompt, str) else ""


def _mean_logprob(answer: CollectedAnswer) -> float:
    """How likely the answer is, whatever its length."""
    scores = [token.logprob for token in answer.logprobs]
    return sum(scores) / len(scores) if scores else 0.0
