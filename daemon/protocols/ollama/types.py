"""Ollama's wire types for answers of models; sources: api/types.go and docs/api.md of Ollama."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

LogprobCount = Annotated[int, Meta(ge=0, le=20)]
KeepAlive = Annotated[float, Meta(ge=-(10**12), le=10**12)] | str
"""Seconds, or a duration such as "5m"; below zero is for ever."""
Think = bool | Literal["low", "medium", "high", "max"]


def now() -> datetime:
    """The time as answers tell it."""
    return datetime.now(UTC)


class CalledFunction(msgspec.Struct):
    """What was called; `arguments` is an object, or its JSON text."""

    name: str = ""
    arguments: dict[str, Any] | str | None = None


class CalledTool(msgspec.Struct):
    """A call in an earlier answer."""

    id: str | None = None
    function: CalledFunction | None = None


class InputMessage(msgspec.Struct):
    """One message of a conversation."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[Any] | None = None
    tool_calls: list[CalledTool] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class ToolFunction(msgspec.Struct):
    """What a tool is called, what it does, and a JSON Schema of its arguments."""

    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OfferedTool(msgspec.Struct):
    """A tool the model may call; one without a function is left out."""

    type: str | None = None
    function: ToolFunction | None = None


class AnswerRequest(msgspec.Struct, kw_only=True):
    """What chats and plain generation have in common; unknown fields are ignored.

    `options` are checked one by one, see `ModelOptions`. `truncate` and `shift` ask for parts of
    the conversation to be dropped, which is not done.
    """

    model: str | None = None
    stream: bool | None = None
    format: dict[str, Any] | str | None = None
    options: dict[str, Any] | None = None
    keep_alive: KeepAlive | None = None
    think: Think | None = None
    logprobs: bool | None = None
    top_logprobs: LogprobCount | None = None
    truncate: bool | None = None
    shift: bool | None = None


class ChatRequest(AnswerRequest, kw_only=True):
    """The body of `POST /api/chat`; without messages it loads or unloads the model."""

    messages: list[InputMessage] | None = None
    tools: list[OfferedTool] | None = None


class GenerateBody(AnswerRequest, kw_only=True):
    """The body of `POST /api/generate`; without a prompt it loads or unloads the model."""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[Any] | None = None


class FunctionCall(msgspec.Struct, frozen=True):
    """A call in an answer; `arguments` is an object."""

    index: int
    name: str
    arguments: msgspec.Raw


class MessageCall(msgspec.Struct, frozen=True):
    """A call in an answer, whole."""

    id: str
    function: FunctionCall


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, or what a line adds to it."""

    role: Literal["assistant"] = "assistant"
    content: str = ""
    thinking: str | UnsetType = UNSET
    tool_calls: list[MessageCall] | UnsetType = UNSET


class Alternative(msgspec.Struct, frozen=True):
    """A token, the natural logarithm of its probability, and its bytes."""

    token: str
    logprob: float
    bytes: list[int]


class Logprob(Alternative, frozen=True):
    """A token of the answer, and the likeliest ones in its place."""

    top_logprobs: list[Alternative]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted at the end; durations in nanoseconds."""

    done_reason: str | UnsetType = UNSET
    total_duration: int | UnsetType = UNSET
    load_duration: int | UnsetType = UNSET
    prompt_eval_count: int | UnsetType = UNSET
    prompt_eval_duration: int | UnsetType = UNSET
    eval_count: int | UnsetType = UNSET
    eval_duration: int | UnsetType = UNSET


class ChatLine(Metrics, frozen=True, kw_only=True):
    """A line of a streamed chat, or the whole answer."""

    model: str
    created_at: datetime
    message: AnswerMessage
    done: bool
    logprobs: list[Logprob] | UnsetType = UNSET


class GenerateLine(Metrics, frozen=True, kw_only=True):
    """A line of a streamed answer, or the whole of it; `context` are the tokens so far."""

    model: str
    created_at: datetime
    response: str
    thinking: str | UnsetType = UNSET
    done: bool
    context: list[int] | UnsetType = UNSET
    logprobs: list[Logprob] | UnsetType = UNSET


class EmbedBody(msgspec.Struct, kw_only=True):
    """The body of `POST /api/embed`."""

    model: str | None = None
    input: str | list[str] | None = None
    truncate: bool | None = None
    dimensions: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    keep_alive: KeepAlive | None = None
    options: dict[str, Any] | None = None


class Embeddings(msgspec.Struct, frozen=True, kw_only=True):
    """A vector for each input."""

    model: str
    embeddings: list[Any]
    total_duration: int | UnsetType = UNSET
    load_duration: int | UnsetType = UNSET
    prompt_eval_count: int | UnsetType = UNSET


class OldEmbedBody(msgspec.Struct, kw_only=True):
    """The body of `POST /api/embeddings`, the older of the two."""

    model: str | None = None
    prompt: str | None = None
    keep_alive: KeepAlive | None = None
    options: dict[str, Any] | None = None


class OldEmbedding(msgspec.Struct, frozen=True):
    """The vector of the prompt."""

    embedding: Any
