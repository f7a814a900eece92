"""Events and results that a loaded model returns for requests."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec


class FinishReason(StrEnum):
    """Why a sequence ended, by OpenAI's names if there are any."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CANCELLED = "cancelled"


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """A token with the natural logarithm of its probability, and the most likely alternatives.

    Probabilities are the model's own: before penalties, temperature, truncation and grammar.
    """

    token_id: int
    logprob: float
    top: list[tuple[int, float]] = []


class PromptScores(msgspec.Struct, frozen=True, array_like=True):
    """The log-probabilities of a prompt's tokens but the first.

    `token_ids` are all of the prompt's, and `token_bytes` has the bytes of each token.
    """

    token_ids: list[int]
    logprobs: list[TokenLogprobs]
    token_bytes: dict[int, bytes]


class Started(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """The request was admitted; of its `prompt_tokens`, `cached_tokens` were in the KV cache.

    If the prompt's log-probabilities were requested, it comes with them, after the prefill.
    """

    id: str
    prompt_tokens: int
    cached_tokens: int = 0
    scores: PromptScores | None = None


class PromptAdvanced(msgspec.Struct, frozen=True, array_like=True, tag="advanced"):
    """So many tokens of a prompt are in the KV cache now, those included that were cached.

    `seconds` have passed since it was admitted. Only for requests that ask for it.
    """

    id: str
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    seconds: float


class Delta(msgspec.Struct, frozen=True, array_like=True, tag="delta"):
    """A piece of one sequence's text, final and complete UTF-8, and its tokens.

    `logprobs` has one entry per token if they were requested, and `token_bytes` the bytes of each
    token in them.
    """

    id: str
    index: int
    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    token_bytes: dict[int, bytes] | None = None


class ReasoningDelta(msgspec.Struct, frozen=True, array_like=True, tag="reasoning"):
    """A piece of the reasoning before an answer; see `Delta`."""

    id: str
    index: int
    text: str
    token_ids: list[int]


class ToolCallStarted(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """One sequence calls the tool `name`; `call` counts its calls from 0."""

    id: str
    index: int
    call: int
    call_id: str
    name: str
    token_ids: list[int]


class ToolCallDelta(msgspec.Struct, frozen=True, array_like=True, tag="arguments"):
    """A piece of a call's arguments; all pieces together are the text of a JSON object."""

    id: str
    index: int
    call: int
    arguments: str
    token_ids: list[int]


class Finished(msgspec.Struct, frozen=True, array_like=True, tag="finished"):
    """One sequence ended; times are seconds of wall clock.

    `queue_seconds` runs until the first prompt token was computed, `prompt_seconds` until the
    first token was sampled, `decode_seconds` until the last. Of `drafted_tokens` draft tokens,
    `accepted_tokens` are part of the completion, and so are the `reasoning_tokens`. `stop` is the
    stop string that ended it. `prompt_tokens` and `cached_tokens` are set if they were not known at
    `Started`: a provider reports them last.
    """

    id: str
    index: int
    reason: FinishReason
    completion_tokens: int
    queue_seconds: float = 0.0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    reasoning_tokens: int = 0
    stop: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0


Event = (
    Started | PromptAdvanced | Delta | ReasoningDelta | ToolCallStarted | ToolCallDelta | Finished
)


EventSink = Callable[[list[Event]], None]
"""Receives the events of one step for one request; called on the event loop."""


class Embedded(msgspec.Struct, frozen=True, tag="embedded"):
    """Vectors of length 1 in the order of the inputs: `dimensions` float32, little-endian, each."""

    id: str
    vectors: bytes
    dimensions: int
    prompt_tokens: int


class Reranked(msgspec.Struct, frozen=True, tag="reranked"):
    """A score from 0 to 1 for each document, in the order of the request."""

    id: str
    scores: list[float]
    prompt_tokens: int


class Tokenized(msgspec.Struct, frozen=True, tag="tokenized"):
    """The tokens, the bytes of each and, if a text was tokenised, that text.

    For a divided prompt there are only the number of tokens of each message, in `message_tokens`,
    and of the rest.
    """

    id: str
    token_ids: list[int]
    pieces: list[bytes]
    text: str | None = None
    message_tokens: list[int] = []
    rest_tokens: int = 0
