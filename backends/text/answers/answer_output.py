"""Converts the tokens of one sequence into events."""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Collection, Sequence

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
from ..tool_calls.call_sink import (
    AnswerReasoning,
    AnswerText,
    CallArguments,
    CallStart,
    Part,
)
from .answer_format import AnswerFormat
from .answer_parser import AnswerParser

_CALL_TAGS = ("<tool_call>", "```", "{")
_BEHIND_TAG = re.compile(r"(?:<tool_call>|```[a-z_]*)?\s*(.*)", re.DOTALL)
_BLANKS = re.compile(r"\s+")
_BEGINS = '{"name":"'


class AnswerOutput:
    """Turns tokens into text, reasoning and tool calls, each as soon as it is certain."""

    def __init__(
        self, request: GenerateRequest, index: int, tokenizer: Tokenizer, form: AnswerFormat
    ) -> None:
        self.request = request
        self._id = request.id
        self._index = index
        self._tokenizer = tokenizer
        self._visible = form.visible
        spelling = self._spell if form.visible else tokenizer.token_bytes
        self.text = TextOutput(spelling, request.stop)
        self._parser: AnswerParser | None = form.new_parser() if form.new_parser else None
        self._held = StrictCallPrefix(form.constrained_tools) if form.constrained_tools else None
        self._warms_up = request.max_tokens == 0
        budget = request.reasoning.budget
        self._reasoning_budget = (
            ReasoningBudget(budget, form.ends_reasoning)
            if budget is not None and form.ends_reasoning
            else None
        )
        self._max_seconds = math.inf if request.max_seconds is None else request.max_seconds
        self._begun = math.inf
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprobs] | None = None
        self.calls = 0
        """Number of tool calls begun."""
        self.reasoning_tokens = 0

    @property
    def is_free(self) -> bool:
        """Return whether a grammar for calls only no longer applies, since the answer began as
        text.
        """
        return self._held is not None and self._held.is_free

    def reasoning_left(self, generated: int) -> int | None:
        """Return the tokens of reasoning left after `generated` tokens; None means no limit."""
        if self._reasoning_budget is None or self._parser is None:
            return None
        return self._reasoning_budget.left(generated, thinking=self._parser.thinking)

    def end_reasoning(self) -> list[int]:
        """Return the tokens that end over-long reasoning; push them as they are forced."""
        return [] if self._reasoning_budget is None else self._reasoning_budget.end()

    @property
    def is_complete(self) -> bool:
        """Return whether all that follows would be dropped."""
        return self._parser is not None and self._parser.is_complete

    @property
    def is_overdue(self) -> bool:
        """Return whether the time limit for generation has passed."""
        return time.monotonic() - self._begun > self._max_seconds

    def push(
        self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprobs] | None = None
    ) -> list[Event]:
        """Return the events that became certain; tokens after a complete stop string are
        dropped.
        """
        if self._warms_up:
            return []
        self._begun = min(self._begun, time.monotonic())
        return self._events(self.text.push(token_ids, logprobs), last=False)

    def finish(self) -> list[Event]:
        """Return the remaining events at the end of the sequence."""
        return self._events(self.text.finish(), last=True)

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
        """Return the event of one part, with the tokens since the previous event."""
        token_ids, self._token_ids = self._token_ids, []
        logprobs, self._logprobs = self._logprobs, None
        match part:
            case AnswerText(text):
                return self._delta(text, token_ids, logprobs)
            case AnswerReasoning(text):
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
        names = token_names(self._tokenizer, logprobs)
        return Delta(self._id, self._index, text, token_ids, logprobs, names)


def _joined(parts: list[Part]) -> list[Part]:
    """Merge adjacent parts of one kind, to send fewer events."""
    joined: list[Part] = []
    for part in parts:
        before = joined[-1] if joined else None
        if isinstance(part, CallStart) or not isinstance(before, type(part)):
            joined.append(part)
        else:
            joined[-1] = type(part)(before.text + part.text)
    return joined


def token_names(tokenizer: Tokenizer, logprobs: list[TokenLogprobs]) -> dict[int, bytes]:
    """Return the bytes of each token in `logprobs`; control tokens by name."""
    ids = {token.token_id for token in logprobs}
    ids.update(token_id for token in logprobs for token_id, _ in token.top)
    return {token_id: tokenizer.token_bytes(token_id, special=True) for token_id in ids}


class ReasoningBudget:
    """Counts the reasoning tokens of an answer, and provides the tokens that end its reasoning."""

    def __init__(self, tokens: int, end: Sequence[int]) -> None:
        """After `tokens` in total, reasoning is ended by the tokens in `end`."""
        self._end = list(end)
        self._left = tokens
        self._seen = 0
        self._thinking = False
        self._ended = False

    def left(self, generated: int, *, thinking: bool) -> int | None:
        """Return the reasoning tokens left after `generated` tokens of the answer; None means no
        limit.

        Reasoning that continues after it was ended is not ended again.
        """
        if self._thinking:
            self._left -= generated - self._seen
        self._seen = generated
        self._thinking = thinking
        if not thinking:
            self._ended = False
        return None if not thinking or self._ended else max(0, self._left)

    def end(self) -> list[int]:
        """Return the tokens to force now."""
        self._ended = True
        return self._end


class StrictCallPrefix:
    """Decides by the beginning of an answer whether it is a call of one of the tools `names`."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self.text = ""
        self._is_call = False
        self.is_free = False
        """Whether the rest of the answer is unconstrained."""

    def push(self, text: str) -> None:
        """Add text of the answer."""
        if self.is_free or self._is_call:
            return
        self.text += text
        begun = self.text.lstrip()
        if any(tag.startswith(begun) for tag in _CALL_TAGS):
            return
        match = _BEHIND_TAG.match(begun)
        behind = _BLANKS.sub("", match[1]) if match else ""
        name = behind[len(_BEGINS) :].partition('"')[0]
        if not behind.startswith(_BEGINS[: len(behind)]):
            self.is_free = True
        elif len(behind) > len(_BEGINS) + len(name):
            self._is_call = name in self._names
            self.is_free = not self._is_call
