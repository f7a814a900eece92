"""Encodes a model's events as chunks of OpenAI's streams; the fields of all answers."""

from __future__ import annotations

import codecs
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, structs

from ingle.backends.base.events import (
    Delta,
    Event,
    FinishReason,
    PromptScores,
    ReasoningDelta,
    TokenLogprobs,
    ToolCallDelta,
)

from ....http.bodies import encode_event
from ...answer_values import Timings, TokenLogprob, timings, token_logprobs
from ...job import AnswerBuilder
from .request_types import CommonRequest
from .types import (
    ChatLogprobs,
    CompletionLogprobs,
    CompletionTokensDetails,
    FinishWord,
    PromptTokensDetails,
    Usage,
)

FINISH_WORDS: dict[FinishReason, FinishWord] = {
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.STOP: "stop",
    FinishReason.CANCELLED: "stop",
}
"""OpenAI has no word for an answer that was cancelled."""

_new_decoder = codecs.getincrementaldecoder("utf-8")


def envelope(collected: AnswerBuilder) -> dict[str, Any]:
    """The fields that are the same in an answer and in all its chunks."""
    return {
        "id": collected.job.id,
        "created": collected.created,
        "model": collected.model.name,
        "system_fingerprint": fingerprint(collected),
    }


def fingerprint(collected: AnswerBuilder) -> str:
    """A digest of everything that can change the answer to the same seed."""
    model, info = collected.model, collected.info
    parts = (model.name, model.sha256, info.engine, info.device, info.context, info.slots)
    return "fp_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:10]


def usage_of(collected: AnswerBuilder, *, written: int | None = None) -> Usage:
    """The tokens of a whole job; `written` is the number so far while it is decoding."""
    prompt = collected.prompt_tokens
    completion = collected.completion_tokens if written is None else written
    total = collected.total
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=PromptTokensDetails(collected.cached_tokens),
        completion_tokens_details=CompletionTokensDetails(
            reasoning_tokens=total.reasoning_tokens,
            accepted_prediction_tokens=total.accepted_tokens,
            rejected_prediction_tokens=total.drafted_tokens - total.accepted_tokens,
        ),
    )


def timings_of(collected: AnswerBuilder) -> Timings:
    """Timings of a whole job."""
    # Decoding is timed from each sequence's first token on, which therefore does not count.
    timed = max(0, collected.completion_tokens - len(collected.ended))
    prompt = (collected.prompt_tokens, collected.cached_tokens)
    return timings(prompt, collected.total, timed=timed)


def chat_logprobs(delta: Delta) -> ChatLogprobs | None:
    """The log-probabilities of a chat's chunk; None if the request asked for none."""
    if delta.logprobs is None:
        return None
    return ChatLogprobs(token_logprobs(delta.logprobs, delta.token_bytes))


class CompletionScores:
    """The log-probabilities of one choice of a plain completion."""

    def __init__(self) -> None:
        self._decoder = _new_decoder(errors="replace")
        self._offset = 0
        self.whole = CompletionLogprobs([], [], [], [])
        """Those of all chunks so far."""

    def take(self, delta: Delta) -> CompletionLogprobs | None:
        """The log-probabilities of a chunk; None if the request asked for none."""
        if delta.logprobs is None:
            return None
        return self._add(token_logprobs(delta.logprobs, delta.token_bytes))

    def take_prompt(self, scored: PromptScores) -> None:
        """Add the tokens of a prompt; nothing predicts the first."""
        first = TokenLogprobs(scored.token_ids[0], 0.0)
        self._add(token_logprobs([first, *scored.logprobs], scored.token_bytes))
        self.whole.token_logprobs[0] = self.whole.top_logprobs[0] = None

    def _add(self, tokens: list[TokenLogprob]) -> CompletionLogprobs:
        part = CompletionLogprobs([], [], [], [])
        for token in tokens:
            part.tokens.append(token.token)
            part.token_logprobs.append(token.logprob)
            # The token itself is always present. Of two tokens with one text the likelier counts.
            scores = {token.token: token.logprob}
            for other in token.top_logprobs:
                scores.setdefault(other.token, other.logprob)
            part.top_logprobs.append(scores)
            part.text_offset.append(self._offset)
            self._offset += len(self._decoder.decode(bytes(token.bytes)))
        for name in part.__struct_fields__:
            getattr(self.whole, name).extend(getattr(part, name))
        return part


DONE = b"data: [DONE]\n\n"

Piece = Delta | ReasoningDelta | ToolCallDelta
"""An event that adds a piece of text."""

# The fields of an event that is only text; all others have a default.
_PLAIN = frozenset({"id", "index", "text", "token_ids"})
_EXTRAS = tuple((f.name, f.default) for f in structs.fields(Delta) if f.name not in _PLAIN)
_TEXT, _REASONING = -2, -1

Place = tuple[int, int, int]
"""Prompt, sequence, and the number of the tool call, or one of the two above."""


class ChunkStream(ABC):
    """Encodes the chunks of one answer.

    Successive chunks of one text, reasoning or call differ only in the text: one is encoded, split
    where the text stands, and joined around each new text. Chunks with more in them are encoded
    as a whole.
    """

    def __init__(self, collected: AnswerBuilder, body: CommonRequest) -> None:
        self.joins = not body.counts_in_chunks
        """Whether chunks may be joined around their text: they may not if each has a count."""
        self._collected = collected
        self._common = body
        self._written = 0
        self._encoder = msgspec.json.Encoder()
        self._splits: dict[Place, tuple[bytes, bytes] | None] = {}

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """The frames of the events."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta and event.text and self.joins and _is_plain(event):
                self._join(parts, (prompt, event.index, _TEXT), event, event.text)
            elif type(event) is ReasoningDelta and self.joins:
                self._join(parts, (prompt, event.index, _REASONING), event, event.text)
            elif type(event) is ToolCallDelta and self.joins:
                self._join(parts, (prompt, event.index, event.call), event, event.arguments)
            else:
                parts += map(self._frame, self._chunks(prompt, event))
        return b"".join(parts)

    def end(self) -> bytes:
        """The end of the stream, after a chunk with the usage if the request asked for it."""
        if not self._common.include_usage:
            return DONE
        usage, timings = usage_of(self._collected), timings_of(self._collected)
        return self._frame(self._envelope([], usage, timings)) + DONE

    @abstractmethod
    def _chunks(self, prompt: int, event: Event) -> Iterator[msgspec.Struct]:
        """The chunks of an event."""

    @abstractmethod
    def _piece(self, prompt: int, event: Piece) -> msgspec.Struct | None:
        """The chunk of a piece that is only text; None if the answer leaves it out."""

    @abstractmethod
    def _envelope(
        self, choices: list[Any], usage: Usage | UnsetType | None, timings: Timings | UnsetType
    ) -> msgspec.Struct:
        """A chunk with these choices."""

    def _wrap(self, choice: msgspec.Struct, *, is_end: bool) -> msgspec.Struct:
        """The chunk of one choice; the last one has the timings if no usage chunk follows."""
        usage = None if self._common.include_usage else UNSET
        if self._common.counts_in_chunks:
            usage = usage_of(self._collected, written=self._written)
        is_last = is_end and len(self._collected.ended) == len(self._collected.answers)
        tells_timings = is_last and not self._common.include_usage
        timings = timings_of(self._collected) if tells_timings else UNSET
        return self._envelope([choice], usage, timings)

    def _join(self, parts: list[bytes], place: Place, event: Piece, text: str) -> None:
        if place not in self._splits:
            self._splits[place] = self._split(place[0], event)
        split = self._splits[place]
        if split is not None:
            parts += (split[0], self._encoder.encode(text), split[1])

    def _split(self, prompt: int, event: Piece) -> tuple[bytes, bytes] | None:
        """The frame of a piece, before its text and after it."""
        name = "arguments" if isinstance(event, ToolCallDelta) else "text"
        chunks = [self._piece(prompt, structs.replace(event, **{name: t})) for t in ("", "x")]
        empty, other = (None if chunk is None else self._frame(chunk) for chunk in chunks)
        if empty is None or other is None:
            return None
        # The first difference is at the closing quote of the empty text.
        at = next(i for i, (a, b) in enumerate(zip(empty, other, strict=False)) if a != b)
        return empty[: at - 1], empty[at + 1 :]

    def _frame(self, chunk: msgspec.Struct) -> bytes:
        return encode_event(self._encoder.encode(chunk))


def _is_plain(event: Delta) -> bool:
    for name, default in _EXTRAS:  # noqa: SIM110 - a generator for each token would cost too much
        if getattr(event, name) != default:
            return False
    return True
