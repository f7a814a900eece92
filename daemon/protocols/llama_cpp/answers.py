"""Converts a model's events into llama-server's answers, whole and streamed."""

from __future__ import annotations

import math
import re
import time
from typing import Any, cast

import msgspec
from msgspec import UNSET

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    PromptAdvanced,
    Started,
    TokenLogprobs,
)

from ...http.bodies import encode_event
from ..answer_values import PromptProgress, Timings, timings
from ..job import AnswerBuilder, Job
from ..request_options import merge_sampling
from .types import (
    Chunk,
    Completion,
    GenerationFields,
    StopType,
    TokenProbabilities,
    TokenProbability,
)


class LineGuard:
    """Ends one answer where a line is indented less than the gap, or where it takes too long.

    Both apply only at the end of a line.
    """

    def __init__(self, *, indent: int = 0, seconds: float | None = None) -> None:
        """At least `indent` spaces or tabs begin each line but the first."""
        # The next character shows that the indentation is complete.
        self._outdent = re.compile(rf"\n[ \t]{{0,{indent - 1}}}(?=[^ \t])") if indent else None
        self._seconds = math.inf if seconds is None else seconds
        self._began: float | None = None
        self._text = ""
        self.ended = False

    def take(self, text: str) -> str:
        """Return the part of the new text that belongs to the answer."""
        if self.ended:
            return ""
        if self._began is None:
            self._began = time.monotonic()
        seen = len(self._text)
        self._text += text
        line = max(0, self._text.rfind("\n", 0, seen))  # earlier lines are indented enough
        if self._outdent is not None and (outdent := self._outdent.search(self._text, line)):
            self.ended = True
            return self._text[seen : outdent.end()]
        if "\n" in text and time.monotonic() - self._began > self._seconds:
            self.ended = True
            return text[: text.index("\n") + 1]
        return text


class AnswerComplete(Exception):
    """All answers are complete although the model still generates."""


class LineGuardedAnswers:
    """Collects the answers to a job, each of which a `LineGuard` may end."""

    def __init__(self, collected: AnswerBuilder, guards: list[LineGuard]) -> None:
        self._collected = collected
        self._guards = guards
        self._timer = AnswerTimer(len(guards))

    def take(self, prompt: int, events: list[Event]) -> None:
        """Add the events of one prompt; raises `AnswerComplete` once all guards have ended."""
        for event in events:
            if isinstance(event, Started | PromptAdvanced):
                self._collected.count(prompt, event)
                continue
            number = self._collected.number(prompt, event.index)
            guard, answer = self._guards[number], self._collected.answers[number]
            self._timer.saw(number)
            if guard.ended:
                continue
            if isinstance(event, Delta):
                event = msgspec.structs.replace(event, text=guard.take(event.text))
            answer.take(event)
            if guard.ended:
                answer.finished = self._timer.end(number, len(answer.token_ids))
        if self._guards and all(guard.ended for guard in self._guards):
            raise AnswerComplete


class AnswerTimer:
    """Measures when each answer began."""

    def __init__(self, answers: int) -> None:
        self._began = time.monotonic()
        self._first: list[float | None] = [None] * answers

    def saw(self, number: int) -> None:
        """Note a piece of this answer."""
        if self._first[number] is None:
            self._first[number] = time.monotonic()

    def end(self, number: int, tokens: int) -> Finished:
        """Return the end of an answer that is cut off now, after this number of tokens."""
        now = time.monotonic()
        first = self._first[number] or now
        return Finished(
            "",
            number,
            FinishReason.LENGTH,
            tokens,
            prompt_seconds=first - self._began,
            decode_seconds=now - first,
        )


class CompletionFrames:
    """Encodes the chunks of one request; each answer ends with a whole `Completion`."""

    def __init__(self, collected: AnswerBuilder, body: GenerationFields) -> None:
        self._collected = collected
        self._body = body
        self._encoder = msgspec.json.Encoder()
        self._predicted = [0] * len(collected.answers)
        self._timer = AnswerTimer(len(collected.answers))

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """Return the chunks of the events."""
        parts: list[bytes] = []
        for event in events:
            match event:
                case Started():
                    self._collected.count(prompt, event)
                    if self._body.return_progress:
                        total, cached = self._collected.prompts[prompt]
                        progress = PromptProgress(total, cached, cached, 0)
                        parts.append(self._frame(self._progress(prompt, progress)))
                case PromptAdvanced():
                    parts.append(self._frame(self._progress(prompt, PromptProgress.of(event))))
                case Delta():
                    if event.text or event.token_ids:
                        parts.append(self._frame(self._chunk(prompt, event)))
                case Finished():
                    parts.append(self._end(prompt, event))
                case _:  # a prompt has no reasoning and no calls
                    pass
        return b"".join(parts)

    def end(self) -> bytes:
        """Nothing: each answer has its own last chunk."""
        return b""

    def _chunk(self, prompt: int, event: Delta) -> Chunk:
        number = self._collected.number(prompt, event.index)
        self._predicted[number] += len(event.token_ids)
        self._timer.saw(number)
        if "\n" in event.text:
            self._collected.answers[number].text.append("\n")
        scores = completion_probabilities(event.logprobs or [], event.token_bytes or {})
        return Chunk(
            index=number,
            content=event.text,
            tokens=event.token_ids,
            id_slot=self._collected.job.slot,
            tokens_predicted=self._predicted[number],
            tokens_evaluated=self._collected.prompts[prompt][0],
            timings=self._timings(prompt, number) if self._body.timings_per_token else UNSET,
            completion_probabilities=scores or UNSET,
        )

    def _timings(self, prompt: int, number: int) -> Timings:
        so_far = self._timer.end(number, self._predicted[number])
        return timings(self._collected.prompts[prompt], so_far)

    def _progress(self, prompt: int, progress: PromptProgress) -> Chunk:
        return Chunk(
            index=self._collected.number(prompt, 0),
            content="",
            tokens=[],
            id_slot=self._collected.job.slot,
            tokens_predicted=0,
            tokens_evaluated=progress.total,
            prompt_progress=progress,
        )

    def _end(self, prompt: int, event: Finished) -> bytes:
        number = self._collected.number(prompt, event.index)
        self._collected.answers[number].take(event)
        answer = completion(self._collected, number, streamed=True)
        return self._frame(only_fields(answer, self._body.response_fields))

    def _frame(self, chunk: object) -> bytes:
        return encode_event(self._encoder.encode(chunk))


def completion(
    collected: AnswerBuilder, number: int, *, return_tokens: bool = False, streamed: bool = False
) -> Completion:
    """Return one answer; at the end of a stream, without its text and its tokens."""
    answer = collected.answers[number]
    text = "".join(answer.text)
    prompt = collected.prompts[number // collected.job.request.n]
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
        id_slot=collected.job.slot,
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
        timings=timings(prompt, finished),
        completion_probabilities=probabilities if probabilities and not streamed else UNSET,
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
    # JSON has no infinity; an impossible token gets the lowest float.
    return token_id, spelt.decode(errors="ignore"), list(spelt), max(logprob, -3.4e38)


def generation_settings(collected: AnswerBuilder) -> dict[str, Any]:
    """The settings of the answer, in llama-server's fields."""
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
    """The requested fields, each under its whole path; a slash leads into an object."""
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
