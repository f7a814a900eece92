"""Running generation requests: their sequences, and events from sampled tokens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from ..base.events import (
    Event,
    Finished,
    FinishReason,
    PromptAdvanced,
    PromptScores,
    Started,
    TokenLogprobs,
)
from ..base.requests import GenerateRequest
from ..engine.engine import Engine
from ..engine.prescribed_tokens import PrescribedTokens
from ..engine.scheduling.scheduler import SequenceOutput
from ..engine.sequence import Sequence
from ..text.answers.answer_output import AnswerOutput, token_names
from ..text.tokenization.tokenizer import Tokenizer
from .request_preparer import Prepared


class RunningRequests:
    """Requests with sequences in the engine; used by the step thread."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._running: dict[str, dict[Sequence, AnswerOutput]] = {}
        self._reading: dict[str, Sequence] = {}
        """The first sequences of requests whose progress is reported."""
        self._scores: dict[str, list[TokenLogprobs]] = {}
        """Of the prompts that are being scored."""
        self._events: list[Event] = []
        self.urgent = False
        """Whether the events have a first token or an end, and so are sent without delay."""

    def start(self, request: GenerateRequest, prepared: Prepared, arrived_at: float) -> None:
        """Queue the `n` sequences of a request."""
        # The token that is sampled after a prompt alone is discarded: no grammar applies to it.
        constraint = None if request.max_tokens == 0 else prepared.constraint
        first: Sequence | None = None
        outputs: dict[Sequence, AnswerOutput] = {}
        for index in range(request.n):
            sequence = Sequence(
                request.id,
                index,
                list(prepared.token_ids),
                request.sampling,
                max_tokens=_most_tokens(request, len(prepared.token_ids)),
                # A request that only fills the cache ignores the token that is sampled.
                ignore_eos=request.ignore_eos or request.max_tokens == 0,
                stop_token_ids=frozenset(request.stop_token_ids),
                # Numbers of adapters mean nothing to another process.
                private=request.private or prepared.adapter > 0,
                adapter=prepared.adapter,
                # Drafts would have to continue tokens that are not in the vocabulary.
                speculates=request.speculation and not prepared.pictures,
                pictures=prepared.pictures,
                priority=request.priority,
                client=request.client,
                conversation=request.conversation,
                logprobs=request.logprobs,
                constraint=None if constraint is None else constraint.fork(),
                parent=first,
                arrived_at=arrived_at,
            )
            if request.prompt_logprobs is not None:
                self._score(sequence, request.prompt_logprobs)
            first = first or sequence
            outputs[sequence] = AnswerOutput(request, index, self._tokenizer, prepared.form)
            sequence.pauses_at = outputs[sequence].reasoning_left(0)
            self._engine.add(sequence)
        self._running[request.id] = outputs
        if request.reports_progress and first is not None and first.scored is None:
            self._reading[request.id] = first

    def _score(self, sequence: Sequence, alternatives: int) -> None:
        """Have a prompt's tokens sampled as they are, so that they get log-probabilities."""
        prompt = sequence.token_ids
        sequence.scored, sequence.token_ids = prompt, prompt[:1]
        sequence.constraint = PrescribedTokens(
            prompt[1:], self._tokenizer.vocab_size, sequence.constraint
        )
        sequence.logprobs = max(alternatives, sequence.logprobs or 0)
        self._scores[sequence.request_id] = []

    def cancel(self, request_id: str) -> bool:
        """Free the sequences of a request; False if it has none."""
        self._scores.pop(request_id, None)
        self._reading.pop(request_id, None)
        sequences = self._running.pop(request_id, {})
        for sequence in sequences:
            self._engine.finish(sequence, FinishReason.CANCELLED)
        return bool(sequences)

    def cancel_all(self) -> None:
        """End all sequences; their tokens stay in the cache."""
        for outputs in self._running.values():
            for sequence in outputs:
                self._engine.finish(sequence, FinishReason.CANCELLED)

    def begin(self, sequences: list[Sequence]) -> None:
        """Add the events of requests whose first sequence begins."""
        for sequence in sequences:
            if sequence.index == 0 and sequence.scored is None:
                cached = sequence.cached_tokens
                self._events.append(Started(sequence.request_id, sequence.prompt_length, cached))

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        self.urgent = False
        return events

    @property
    def has_events(self) -> bool:
        """Return whether there are events to send."""
        return bool(self._events)

    def publish(self, outputs: list[SequenceOutput], on_error: Callable[[str, str], None]) -> None:
        """Turn one step's tokens into events.

        `on_error` is called with the id of a request that failed and the reason; it cancels it.
        """
        self._report_progress()
        for output in outputs:
            sequence = output.sequence
            if sequence.request_id not in self._running:
                continue  # another of its sequences failed in the same step
            answer = self._running[sequence.request_id][sequence]
            reason = output.finish_reason
            if output.error is not None:
                on_error(sequence.request_id, output.error)
                continue
            if sequence.request_id in self._scores:
                output = self._scored(output, answer)
                if not output.token_ids:
                    continue
            # The token that ends the answer is not part of its text.
            last = output.token_ids[-1]
            eog = reason is FinishReason.STOP and self._engine.runner.is_eog(last)
            consumed = answer.text.consumed
            self.urgent |= not consumed  # its first token
            token_ids = output.token_ids[:-1] if eog else output.token_ids
            self._events += answer.push(token_ids, output.logprobs)
            if answer.text.stop is not None:
                # All tokens of a step but the last were drafted; none counts after a stop string.
                kept = answer.text.consumed - consumed
                sequence.accepted_tokens -= max(0, len(output.token_ids) - 1 - kept)
                self._engine.finish(sequence, FinishReason.STOP)
                self._finish(sequence, FinishReason.STOP, answer.text.consumed)
            elif reason is not None:
                self._finish(sequence, reason, answer.text.consumed + eog)
            elif answer.is_complete or answer.is_overdue:
                reason = FinishReason.STOP if answer.is_complete else FinishReason.LENGTH
                self._engine.finish(sequence, reason)
                self._finish(sequence, reason, answer.text.consumed)
            else:
                if answer.is_free:
                    sequence.constraint = None
                self._bound_reasoning(sequence, answer)

    def _report_progress(self) -> None:
        """Add how far the prompts are read that began and have no token of an answer yet."""
        now = time.monotonic()
        for request_id, sequence in list(self._reading.items()):
            if not sequence.started_at or sequence.slot < 0:
                continue
            length = sequence.prompt_length
            computed = min(sequence.num_computed, length)
            self._events.append(
                PromptAdvanced(
                    request_id,
                    length,
                    sequence.cached_tokens,
                    computed,
                    now - sequence.started_at,
                )
            )
            if computed == length:
                del self._reading[request_id]

    def _scored(self, output: SequenceOutput, answer: AnswerOutput) -> SequenceOutput:
        """Take the log-probabilities of a prompt's tokens; return the rest of the output."""
        sequence, count = output.sequence, output.prescribed
        logprobs = output.logprobs or []
        scores = self._scores[sequence.request_id]
        scores += _cut(logprobs[:count], answer.request.prompt_logprobs or 0)
        if sequence.num_generated >= 0:
            del self._scores[sequence.request_id]
            prompt = sequence.scored or []
            names = token_names(self._tokenizer, scores) | {
                prompt[0]: self._tokenizer.token_bytes(prompt[0], special=True)
            }
            found = PromptScores(prompt, scores, names)
            self._events.append(Started(sequence.request_id, len(prompt), 0, found))
            sequence.logprobs = answer.request.logprobs
            if isinstance(sequence.constraint, PrescribedTokens):
                sequence.constraint = sequence.constraint.then
        wanted = answer.request.logprobs
        return replace(
            output,
            token_ids=output.token_ids[count:],
            logprobs=None if wanted is None else _cut(logprobs[count:], wanted),
        )

    def _bound_reasoning(self, sequence: Sequence, answer: AnswerOutput) -> None:
        """End reasoning that exceeds its budget, once no launched token of it is outstanding."""
        left = answer.reasoning_left(sequence.num_generated)
        if left == 0 and not sequence.num_awaited:
            forced = self._engine.force_tokens(sequence, answer.end_reasoning())
            certain = None if sequence.logprobs is None else [TokenLogprobs(t, 0.0) for t in forced]
            self._events += answer.push(forced, certain)
            left = answer.reasoning_left(sequence.num_generated)
        sequence.pauses_at = None if left is None else sequence.num_generated + left

    def _finish(self, sequence: Sequence, reason: FinishReason, completion_tokens: int) -> None:
        """Emit the remaining events and the end of one sequence."""
        self.urgent = True
        self._reading.pop(sequence.request_id, None)
        outputs = self._running[sequence.request_id]
        answer = outputs.pop(sequence)
        self._events += answer.finish()
        self._events.append(_finished(sequence, reason, completion_tokens, answer))
        if not outputs:
            del self._running[sequence.request_id]


def _cut(logprobs: list[TokenLogprobs], alternatives: int) -> list[TokenLogprobs]:
    """Return the log-probabilities with at most so many alternatives."""
    return [structs.replace(token, top=token.top[:alternatives]) for token in logprobs]


def _most_tokens(request: GenerateRequest, prompt_length: int) -> int | None:
    """Return the most tokens a sequence may generate; None if only the context bounds it.

    It is at least 1, since every step samples a token; an answer of none discards it.
    """
    bounds = [] if request.max_tokens is None else [request.max_tokens]
    if request.max_context is not None:
        bounds.append(request.max_context - prompt_length)
    return max(1, min(bounds)) if bounds else None


def _finished(
    sequence: Sequence, reason: FinishReason, completion_tokens: int, answer: AnswerOutput
) -> Finished:
    if reason is FinishReason.STOP and answer.calls:
        reason = FinishReason.TOOL_CALLS
    started = sequence.started_at or sequence.arrived_at
    first = sequence.first_token_at or started
    return Finished(
        sequence.request_id,
        sequence.index,
        reason,
        completion_tokens,
        queue_seconds=started - sequence.arrived_at,
        prompt_seconds=first - started,
        decode_seconds=(sequence.last_token_at or first) - first,
        drafted_tokens=sequence.drafted_tokens,
        accepted_tokens=sequence.accepted_tokens,
        reasoning_tokens=answer.reasoning_tokens,
        stop=answer.text.stop,
    )
