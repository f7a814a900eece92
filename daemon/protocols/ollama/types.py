"""Ollama's wire types; sources: api/types.go and docs/api.md of Ollama."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ingle.models.metadata.stored_model import FirstMessage

from ...http.field_policy import FieldPolicy
from ..answer_values import TokenLogprob
from ..field_policies import OLLAMA_EMBED_FIELDS, OLLAMA_FIELDS

LogprobCount = Annotated[int, Meta(ge=0, le=20)]
KeepAlive = Annotated[float, Meta(ge=-(10**12), le=10**12)] | str
"""Seconds, or a duration such as "5m"; below zero is for ever."""
Think = bool | Literal["low", "medium", "high", "max"]


class InputFunctionCall(msgspec.Struct):
    """The called function; `arguments` is an object, or its JSON text."""

    name: str = ""
    arguments: dict[str, Any] | str | None = None


class InputCall(msgspec.Struct):
    """A call in an earlier answer."""

    id: str | None = None
    function: InputFunctionCall | None = None


class OllamaMessage(msgspec.Struct):
    """One message of a conversation."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[Any] | None = None
    tool_calls: list[InputCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class ToolFunction(msgspec.Struct):
    """The name and description of a tool, and a JSON Schema of its arguments."""

    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OfferedTool(msgspec.Struct):
    """A tool the model may call; one without a function is left out."""

    type: str | None = None
    function: ToolFunction | None = None


class AnswerRequest(msgspec.Struct, kw_only=True):
    """The common fields of chats and plain generation; unknown fields are ignored.

    `options` are checked one by one, see `ModelOptions`. `truncate` and `shift` ask for parts of
    the conversation to be dropped, which is not done.
    """

    field_policy: ClassVar[FieldPolicy] = OLLAMA_FIELDS

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

    messages: list[OllamaMessage] | None = None
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
    """An answer, or the part of it in one line."""

    role: Literal["assistant"] = "assistant"
    content: str = ""
    thinking: str | UnsetType = UNSET
    tool_calls: list[MessageCall] | UnsetType = UNSET


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts and durations of a complete answer, in nanoseconds.

    `prompt_eval_cached_count`, ingle's addition, of the prompt's tokens were cached.
    """

    done_reason: str | UnsetType = UNSET
    total_duration: int | UnsetType = UNSET
    load_duration: int | UnsetType = UNSET
    prompt_eval_count: int | UnsetType = UNSET
    prompt_eval_cached_count: int | UnsetType = UNSET
    prompt_eval_duration: int | UnsetType = UNSET
    eval_count: int | UnsetType = UNSET
    eval_duration: int | UnsetType = UNSET


class ChatLine(Metrics, frozen=True, kw_only=True):
    """A line of a streamed chat, or the whole answer."""

    model: str
    created_at: datetime
    message: AnswerMessage
    done: bool
    logprobs: list[TokenLogprob] | UnsetType = UNSET


class GenerateLine(Metrics, frozen=True, kw_only=True):
    """A line of a streamed answer, or the whole of it; `context` are the tokens so far."""

    model: str
    created_at: datetime
    response: str
    thinking: str | UnsetType = UNSET
    done: bool
    context: list[int] | UnsetType = UNSET
    logprobs: list[TokenLogprob] | UnsetType = UNSET


class EmbedBody(msgspec.Struct, kw_only=True):
    """The body of `POST /api/embed`."""

    field_policy: ClassVar[FieldPolicy] = OLLAMA_EMBED_FIELDS

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

    field_policy: ClassVar[FieldPolicy] = OLLAMA_EMBED_FIELDS

    model: str | None = None
    prompt: str | None = None
    keep_alive: KeepAlive | None = None
    options: dict[str, Any] | None = None


class OldEmbedding(msgspec.Struct, frozen=True):
    """The vector of the prompt."""

    embedding: Any


class Version(msgspec.Struct, frozen=True):
    """The version of Ollama that this daemon is compatible with, and its own version."""

    version: str
    ingle: str


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """The details of a model; most clients do not know the lengths yet."""

    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str
    context_length: int | UnsetType = UNSET
    embedding_length: int | UnsetType = UNSET


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """An installed model, or an alias of one."""

    name: str
    model: str
    modified_at: datetime
    size: int
    digest: str
    details: Details
    capabilities: list[str]


class ListedModels(msgspec.Struct, frozen=True):
    """The installed models, the newest first."""

    models: list[ListedModel]


class RunningModel(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded model; sizes in bytes."""

    name: str
    model: str
    size: int
    digest: str
    details: Details
    expires_at: datetime
    size_vram: int
    context_length: int


class RunningModels(msgspec.Struct, frozen=True):
    """The loaded models, the one that expires last first."""

    models: list[RunningModel]


class NamedModel(msgspec.Struct, frozen=True, kw_only=True):
    """Names a model; older clients write `name`."""

    model: str | None = None
    name: str | None = None


class ShowRequest(NamedModel, frozen=True, kw_only=True):
    """The body of `POST /api/show`; `verbose` adds the tensors."""

    verbose: bool | None = None
    system: str | None = None
    template: str | None = None
    options: dict[str, Any] | None = None


class ShownTensor(msgspec.Struct, frozen=True):
    """One tensor of a model's file."""

    name: str
    type: str
    shape: list[int]


class ShownModel(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one model; `model_info` has the keys of its file."""

    license: str
    modelfile: str
    parameters: str
    template: str
    system: str
    details: Details
    messages: Sequence[FirstMessage]
    model_info: dict[str, Any]
    tensors: list[ShownTensor] | UnsetType = UNSET
    capabilities: list[str]
    modified_at: datetime


class CopyRequest(msgspec.Struct, frozen=True):
    """The body of `POST /api/copy`."""

    source: str | None = None
    destination: str | None = None


class PullRequest(NamedModel, frozen=True, kw_only=True):
    """The body of `POST /api/pull` and `POST /api/push`; the rest is ignored."""

    stream: bool | None = None
    insecure: bool | None = None
    username: str | None = None
    password: str | None = None


class CreateRequest(NamedModel, frozen=True, kw_only=True, rename={"from_": "from"}):
    """The body of `POST /api/create`: from a model, or from uploaded `files` by their digests."""

    stream: bool | None = None
    from_: str | None = None
    files: dict[str, str] | None = None
    adapters: dict[str, str] | None = None
    template: str | None = None
    license: str | list[str] | None = None
    system: str | None = None
    parameters: dict[str, Any] | None = None
    messages: list[OllamaMessage] | None = None
    quantize: str | None = None
    quantization: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a download or of a creation; the last says `success`."""

    status: str
    digest: str | UnsetType = UNSET
    total: int | UnsetType = UNSET
    completed: int | UnsetType = UNSET
