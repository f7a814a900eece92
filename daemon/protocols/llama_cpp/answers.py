"""From a model's answers to llama-server's."""

from __future__ import annotations

import time
from typing import Any, cast

import msgspec
from msgspec import UNSET

from ingle.backends.base.events import Delta, Event, Finished, FinishReason, Started, TokenLogprobs

from ...lifecycle.lease import Lease
from ..answer_builder import AnswerBuilder, CollectedAnswer
from ..job import Job
from ..sampling_options import merge_sampling
from ..timings import Timings, timings
from .line_guard import LineGuard
from .types import Completion, StopType, TokenProbabilities, TokenProbability


class AnswerComplete(Exception):
    """All answers have ended before the model knew."""


class LineGuardedAnswers:
    """The answers to a job, each of which a `LineGuard` may end."""

    def __init__(
        self, job: Job, lease: Lease, guards: list[LineGuard], *, load_seconds: float = 0.0
    ) -> None:
        self.collected = AnswerBuilder(job, lease, load_seconds=load_seconds)
        self._guards = guards
        self._prompts = [(0, 0)] * max(1, len(job.prompts))
        self._clock = AnswerTimer(len(guards))

    def take(self, prompt: int, events: list[Event]) -> None:
        """Add the events of one prompt; raises `AnswerComplete` where nothing more is of use."""
        for event in events:
            if isinstance(event, Started):
                self._prompts[prompt] = (event.prompt_tokens, event.cached_tokens)
                self.collected.count(event)
                continue
            number = prompt * self.collected.job.request.n + event.index
            guard, answer = self._guards[number], self.collected.answers[number]
            self._clock.saw(number)
            if guard.ended:
                continue
            if isinstance(event, Delta):
                event = msgspec.structs.replace(event, text=guard.take(event.text))
            answer.take(event)
            if guard.ended:
                answer.finished = self._cut_short(answer, number)
        if self._guards and all(guard.ended for guard in self._guards):
            raise AnswerComplete

    def _cut_short(self, answer: CollectedAnswer, number: int) -> Finished:
        prompt_seconds, decode_seconds = self._clock.times(number)
        return Finished(
            self.collected.job.id,
            number,
            FinishReason.LENGTH,
            len(answer.token_ids),
            prompt_seconds=prompt_seconds,
            decode_seconds=decode_seconds,
        )

    def whole(self, *, return_tokens: bool) -> list[Completion]:
        """All answers, in order."""
        n = self.collected.job.request.n
        return [
            completion(
                self.collected,
                number,
                self._prompts[number // n],
                return_tokens=return_tokens,
            )
            for number in range(len(self.collected.answers))
        ]


class AnswerTimer:
    """When each answer began and was last added to."""

    def __init__(self, answers: int) -> None:
        self._began = time.monotonic()
        self._first: list[float | None] = [None] * answers

    def saw(self, number: int) -> None:
        """Something of this answer has come."""
        if self._first[number] is None:
            self._first[number] = time.monotonic()

    def times(self, number: int) -> tuple[float, float]:
        """Seconds until its first token, and from then on until now."""
        now = time.monotonic()
        first = self._first[number]
        return (now - self._began, 0.0) if first is None else (first - self._began, now - first)


def completion(
    collected: AnswerBuilder,
    number: int,
    prompt: tuple[int, int],
    *,
    return_tokens: bool = False,
    streamed: bool = False,
) -> Completion:
    """One answer; `prompt` counts the tokens of its prompt, and those of them that were cached."""
    answer = collected.answers[number]
    text = "".join(answer.text)
    tokens, _ = prompt
    finished = answer.finished or Finished("", 0, FinishReason.STOP, len(answer.token_ids))
    predicted = finished.completion_tokens
    used = tokens + predicted
    stop_type, word = _stop(finished)
    probabilities = completion_probabilities(answer.logprobs, answer.token_bytes)
    return Completion(
        index=number,
        content="" if streamed else text,
        tokens=answer.token_ids if return_tokens and not streamed else [],
        model=collected.model.name,
        tokens_predicted=predicted,
        tokens_evaluated=tokens,
        generation_settings=generation_settings(collected),
        prompt=_prompt_text(collected.job, number),
        has_new_line="\n" in text,
        truncated=finished.reason is FinishReason.LENGTH and used >= collected.info.context,
        stop_type=stop_type,
        stopping_word=word,
        # The last token of an answer was chosen, but never computed.
        tokens_cached=used - 1 if predicted else used,
        timings=answer_timings(prompt, finished),
        completion_probabilities=probabilities if probabilities and not streamed else UNSET,
    )


def answer_timings(prompt: tuple[int, int], finished: Finished) -> Timings:
    """The timings of one answer; `prompt` counts its prompt's tokens and those that were cached."""
    tokens, cached = prompt
    return timings(
        prompt=tokens,
        cached=cached,
        prompt_seconds=finished.prompt_seconds,
        predicted=finished.completion_tokens,
        timed=finished.completion_tokens,
        decode_seconds=finished.decode_seconds,
        drafted=finished.drafted_tokens,
        accepted=finished.accepted_tokens,
    )


def completion_probabilities(
    logprobs: list[TokenLogprobs], names: dict[int, bytes]
) -> list[TokenProbabilities]:
    """Each token with the likeliest ones in its place."""
    return [
        TokenProbabilities(
            *_token(token.token_id, token.logprob, names),
            top_logprobs=[
                TokenProbability(*_token(token_id, logprob, names))
                for token_id, logprob in token.top
            ],
        )
        for token in logprobs
    ]


def _token(
    token_id: int, logprob: float, names: dict[int, bytes]
) -> tuple[int, str, list[int], float]:
    spelt = names.get(token_id, b"")
    # JSON has no infinity; what cannot come is as unlikely as can be said.
    return token_id, spelt.decode(errors="ignore"), list(spelt), max(logprob, -3.4e38)


def generation_settings(collected: AnswerBuilder) -> dict[str, Any]:
    """What the answer was made with, in llama-server's words."""
    request = collected.job.request
    sampling = merge_sampling(collected.job.options, collected.model.sampling)
    settings = cast("dict[str, Any]", msgspec.to_builtins(msgspec.structs.asdict(sampling)))
    most = -1 if request.max_tokens is None else request.max_tokens
    biases = [{"token": token, "bias": bias} for token, bias in sampling.logit_bias.items()]
    return settings | {
        "seed": -1 if sampling.seed is None else sampling.seed,
        "logit_bias": biases,
        "stop": request.stop,
        "max_tokens": most,
        "n_predict": most,
        "n_probs": request.logprobs or 0,
        "ignore_eos": request.ignore_eos,
        "grammar": "" if request.grammar is None else request.grammar.text,
        "lora": [],
    }


def _prompt_text(job: Job, number: int) -> str:
    prompt = job.prompts[number // job.request.n] if job.prompts else ""
    return prompt if isinstance(prompt, str) else ""


def _stop(finished: Finished) -> tuple[StopType, str]:
    match finished.reason:
        case FinishReason.LENGTH:
            return "limit", ""
        case FinishReason.STOP | FinishReason.TOOL_CALLS:
            return ("eos", "") if finished.stop is None else ("word", finished.stop)
        case FinishReason.CANCELLED:
            return "none", ""


def only_fields(answer: Completion, paths: list[str] | None) -> object:
    """The fields that were asked for, each under its whole path; a slash leads into an object."""
    if not paths:
        return answer
    whole = msgspec.to_builtins(answer)
    chosen: dict[str, Any] = {}
    for path in paths:
        value: Any = whole
        for key in path.split("/"):
            inside = isinstance(value, dict) and key in value
            value = cast("dict[str, Any]", value)[key] if inside else UNSET
        if value is not UNSET:
            chosen[path] = value
    return chosen
