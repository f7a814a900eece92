"""From a model's events to the answer of plain prompts, whole and in chunks."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from ingle.backends.base.conversation import Infill
from ingle.backends.base.events import Delta, Event, Finished, Started

from ...answer_builder import AnswerBuilder, CollectedAnswer
from ...job import Job
from .answer_style import AnswerStyle
from .chunk_frames import Piece
from .logprobs import CompletionScores
from .timings import Timings, timings_of
from .types import Completion, CompletionChoice, CompletionLogprobs, FinishWord, Usage
from .usage import fingerprint, finish_word, usage_of


class CompletionAnswer:
    """The stream of plain prompts; choice `i * n + j` is answer j to prompt i."""

    def __init__(self, collected: AnswerBuilder, style: AnswerStyle) -> None:
        self._collected = collected
        self._style = style
        self._fingerprint = fingerprint(collected)
        self._scores = [CompletionScores() for _ in collected.answers]
        self._written = 0

    @property
    def counts_on(self) -> bool:
        """Whether every chunk counts the tokens."""
        return self._style.counts_on

    def chunks(self, prompt: int, event: Event) -> Iterator[Completion]:
        """Text and finish chunks; with `echo` the prompt comes first."""
        self._collected.count(event)
        first = prompt * self._collected.job.request.n
        match event:
            case Started():
                if self._style.echo and (text := _prompt_text(self._collected.job, prompt)):
                    for index in range(first, first + self._collected.job.request.n):
                        yield self._chunk(index, text)
            case Delta():
                self._written += len(event.token_ids)
                logprobs = self._scores[first + event.index].take(event)
                if logprobs is not None or event.text:
                    yield self._chunk(first + event.index, event.text, logprobs=logprobs)
            case Finished():
                self._collected.answers[first + event.index].take(event)
                word = finish_word(event.reason)
                yield self._chunk(first + event.index, "", word, timings=self._timings())
            case _:  # a prompt has no reasoning and no calls
                return

    def piece(self, prompt: int, event: Piece) -> Completion | None:
        """The chunk of text that says nothing else."""
        if not isinstance(event, Delta):
            return None
        return self._chunk(prompt * self._collected.job.request.n + event.index, event.text)

    def usage_chunk(self) -> Completion | None:
        """No choices, only the count."""
        if not self._style.include_usage:
            return None
        return self._envelope([], usage_of(self._collected), timings_of(self._collected))

    def _chunk(
        self,
        index: int,
        text: str,
        reason: FinishWord | None = None,
        logprobs: CompletionLogprobs | None = None,
        timings: Timings | UnsetType = UNSET,
    ) -> Completion:
        choice = CompletionChoice(index=index, text=text, logprobs=logprobs, finish_reason=reason)
        usage = None if self._style.include_usage else UNSET
        if self._style.counts_on:
            usage = usage_of(self._collected, written=self._written)
        return self._envelope([choice], usage, timings)

    def _envelope(
        self,
        choices: list[CompletionChoice],
        usage: Usage | UnsetType | None,
        timings: Timings | UnsetType,
    ) -> Completion:
        return Completion(
            id=self._collected.job.id,
            created=self._collected.created,
            model=self._collected.model.name,
            choices=choices,
            usage=usage,
            system_fingerprint=self._fingerprint,
            timings=timings,
        )

    def _timings(self) -> Timings | UnsetType:
        """Those of the whole, in the last chunk unless another follows that counts."""
        ended = len(self._collected.ended) == len(self._collected.answers)
        return timings_of(self._collected) if ended and not self._style.include_usage else UNSET


def completion(collected: AnswerBuilder, style: AnswerStyle) -> Completion:
    """All plain prompts, each with its text; of several answers to one, the likeliest first."""
    written = collected.job.request.n
    kept = style.keep or written
    choices: list[CompletionChoice] = []
    for prompt in range(len(collected.job.prompts)):
        answers = collected.answers[prompt * written : (prompt + 1) * written]
        if kept < written:
            answers = sorted(answers, key=_mean_logprob, reverse=True)[:kept]
        text = _prompt_text(collected.job, prompt) if style.echo else ""
        choices += [
            _choice(text, prompt * kept + number, answer, style)
            for number, answer in enumerate(answers)
        ]
    return Completion(
        id=collected.job.id,
        created=collected.created,
        model=collected.model.name,
        choices=choices,
        usage=usage_of(collected),
        system_fingerprint=fingerprint(collected),
        timings=timings_of(collected),
    )


def _choice(
    echoed: str, index: int, answer: CollectedAnswer, style: AnswerStyle
) -> CompletionChoice:
    text = "".join(answer.text)
    scores = CompletionScores()
    scores.take(Delta("", index, text, [], answer.logprobs, answer.token_bytes))
    return CompletionChoice(
        index=index,
        text=echoed + text,
        logprobs=scores.whole() if style.tells_logprobs else None,
        finish_reason=finish_word(answer.reason),
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
