"""The events of one sequence, from its tokens."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence

from ...base.events import (
    Delta,
    Event,
    ReasoningDelta,
    TokenLogprobs,
    ToolCallDelta,
    ToolCallStarted,
)
from ...base.requests import GenerateRequest
from ..streaming.text_output import TextChunk, TextOutput
from ..tokenization.tokenizer import Tokenizer
from ..tool_calls.answer_parts import (
    AnswerParser,
    CallArguments,
    CallStart,
    Part,
    ReasoningText,
    Text,
)
from .answer_format import AnswerFormat
from .reasoning_budget import ReasoningBudget
from .strict_call_prefix import StrictCallPrefix


class AnswerOutput:
    """Turns tokens into text, reasoning and calls of tools, each as soon as it is certain."""

    def __init__(
        self, request: GenerateRequest, index: int, tokenizer: Tokenizer, form: AnswerFormat
    ) -> None:
        self._id = request.id
        self._index = index
        self._tokenizer = tokenizer
        self._visible = form.visible
        spelling = self._spell if form.visible else tokenizer.token_bytes
        self._text = TextOutput(spelling, request.stop)
        self._parser: AnswerParser | None = form.new_parser() if form.new_parser else None
        self._held = StrictCallPrefix(form.holds) if form.holds else None
        self._warms_up = request.max_tokens == 0
        budget = request.reasoning.budget
        self._thoughts = (
            ReasoningBudget(budget, form.ends_thought)
            if budget is not None and form.ends_thought
            else None
        )
        self._max_seconds = math.inf if request.max_seconds is None else request.max_seconds
        self._begun = math.inf
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprobs] | None = None
        self.calls = 0
        """Calls of tools that were begun."""
        self.reasoning_tokens = 0

    @property
    def consumed(self) -> int:
        """Tokens that are part of the answer, so far."""
        return self._text.consumed

    @property
    def is_free(self) -> bool:
        """Whether only a call was held to a grammar, and the answer has begun as something else."""
        return self._held is not None and self._held.is_free

    def thoughts_left(self, generated: int) -> int | None:
        """Tokens that may follow the `generated` ones before the thought ends; None: any number."""
        if self._thoughts is None or self._parser is None:
            return None
        return self._thoughts.left(generated, thinking=self._parser.thinking)

    def end_thought(self) -> list[int]:
        """The tokens that end a thought which is too long; to be pushed where they are said."""
        return [] if self._thoughts is None else self._thoughts.end()

    @property
    def overdue(self) -> bool:
        """Whether writing took longer than it may."""
        return time.monotonic() - self._begun > self._max_seconds

    @property
    def stop(self) -> str | None:
        """The stop string that was hit."""
        return self._text.stop

    def push(
        self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs] | None = None
    ) -> list[Event]:
        """What became certain; tokens behind the one that completes a stop string are dropped."""
        if self._warms_up:
            return []
        self._begun = min(self._begun, time.monotonic())
        return self._events(self._text.push(token_ids, logprobs), last=False)

    def finish(self) -> list[Event]:
        """The rest, now that no more tokens follow."""
        return self._events(self._text.finish(), last=True)

    def _spell(self, token_id: int) -> bytes:
        return self._tokenizer.token_bytes(token_id, special=token_id in self._visible)

    def _events(self, chunk: TextChunk, *, last: bool) -> list[Event]:
        if self._parser is None:
            if not chunk.text and not chunk.logprobs:
                return []
            return [self._delta(chunk.text, chunk.token_ids, chunk.logprobs)]
        if self._held is not None:
            self._held.push(chunk.text)
        self._token_ids += chunk.token_ids
        if chunk.logprobs is not None:
            self._logprobs = [*(self._logprobs or []), *chunk.logprobs]
        parts = self._parser.push(chunk.text) if chunk.text else []
        if last:
            parts += self._parser.finish()
        return [self._event(part) for part in _joined(parts)]

    def _event(self, part: Part) -> Event:
        """The event of one part; the tokens since the one before count for it."""
        token_ids, self._token_ids = self._token_ids, []
        logprobs, self._logprobs = self._logprobs, None
        match part:
            case Text(text):
                return self._delta(text, token_ids, logprobs)
            case ReasoningText(text):
                self.reasoning_tokens += len(token_ids)
                return ReasoningDelta(self._id, self._index, text, token_ids)
            case CallStart(name, call_id):
                self.calls += 1
                call_id = call_id or f"call_{secrets.token_hex(12)}"
                return ToolCallStarted(
                    self._id, self._index, self.calls - 1, call_id, name, token_ids
                )
            case CallArguments(text):
                return ToolCallDelta(self._id, self._index, self.calls - 1, text, token_ids)

    def _delta(
        self, text: str, token_ids: list[int], logprobs: list[TokenLogprobs] | None
    ) -> Delta:
        if logprobs is None:
            return Delta(self._id, self._index, text, token_ids)
        names = _token_bytes(self._tokenizer, logprobs)
        return Delta(self._id, self._index, text, token_ids, logprobs, names)


def _joined(parts: list[Part]) -> list[Part]:
    """Neighbours of one kind as one, which saves events."""
    joined: list[Part] = []
    for part in parts:
        before = joined[-1] if joined else None
        if isinstance(part, Text) and isinstance(before, Text):
            joined[-1] = Text(before.text + part.text)
        elif isinstance(part, ReasoningText) and isinstance(before, ReasoningText):
            joined[-1] = ReasoningText(before.text + part.text)
        elif isinstance(part, CallArguments) and isinstance(before, CallArguments):
            joined[-1] = CallArguments(before.text + part.text)
        else:
            joined.append(part)
    return joined


def _token_bytes(tokenizer: Tokenizer, logprobs: list[TokenLogprobs]) -> dict[int, bytes]:
    """What each token in `logprobs` stands for; control tokens by their names."""
    ids = {token.token_id for token in logprobs}
    ids.update(token_id for token in logprobs for token_id, _ in token.top)
    return {token_id: tokenizer.token_bytes(token_id, special=True) for token_id in ids}
