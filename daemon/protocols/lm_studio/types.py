"""LM Studio's wire types; source: its REST API's documentation, versions 0 and 1."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...http.field_policy import FieldPolicy
from ..field_policies import UNSTORED_CHAT_FIELDS
from ..openai.completions.request_types import ChatCompletionRequest, PlainCompletionRequest
from ..openai.completions.types import ChatCompletion, TextCompletion
from ..openai.embeddings_api import EmbeddingsRequest
from ..request_options import TokenCount

TimeToLive = Annotated[float, Meta(ge=-1, le=10**9, description="seconds; -1 is for ever")]
FileFormat = Literal["gguf", "mlx"]
"""`mlx` is any folder of safetensors: clients know these two values, and fail at any other."""
ModelKey = Annotated[str, Meta(min_length=1, max_length=4096)]


class ChatBody(ChatCompletionRequest, kw_only=True):
    """OpenAI's chat, and how long the model stays afterwards."""

    field_policy: ClassVar[FieldPolicy] = UNSTORED_CHAT_FIELDS

    ttl: TimeToLive | None = None


class CompletionBody(PlainCompletionRequest, kw_only=True):
    """OpenAI's completion, and how long the model stays afterwards."""

    ttl: TimeToLive | None = None


class LMStudioEmbeddings(EmbeddingsRequest, kw_only=True):
    """OpenAI's embeddings; `ttl` is checked and has no effect."""

    ttl: TimeToLive | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of an answer, its times in seconds, and why it ended."""

    tokens_per_second: float
    time_to_first_token: float
    generation_time: float
    stop_reason: str


class LoadedInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answered."""

    arch: str
    quant: str
    format: str
    context_length: int


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that computed the answer."""

    name: str
    version: str
    supported_formats: list[str]


class MeasuredChat(ChatCompletion, frozen=True, kw_only=True):
    """OpenAI's answer to a chat, measured."""

    stats: Stats
    model_info: LoadedInfo
    runtime: Runtime


class MeasuredCompletion(TextCompletion, frozen=True, kw_only=True):
    """OpenAI's answer to a completion, measured."""

    stats: Stats
    model_info: LoadedInfo
    runtime: Runtime


class LMStudioModel(msgspec.Struct, frozen=True, kw_only=True):
    """An installed model, or an alias of one, in version 0."""

    id: str
    object: Literal["model"] = "model"
    type: Literal["llm", "vlm", "embeddings"]
    publisher: str
    arch: str
    compatibility_type: FileFormat
    quantization: str
    state: Literal["loaded", "not-loaded"]
    max_context_length: int
    loaded_context_length: int | UnsetType = UNSET
    capabilities: list[Literal["tool_use"]]


class LMStudioModels(msgspec.Struct, frozen=True, kw_only=True):
    """The list of models in version 0."""

    object: Literal["list"] = "list"
    data: list[LMStudioModel]


class QuantizationInfo(msgspec.Struct, frozen=True):
    """The quantization of a file, and the average bits of a weight."""

    name: str
    bits_per_weight: float | None


class InstanceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a loaded model."""

    context_length: int
    flash_attention: bool
    offload_kv_cache_to_gpu: bool
    parallel: int


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded model; there is one of each at most."""

    id: str
    config: InstanceConfig


class ReasoningAbility(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the reasoning of a model has."""

    allowed_options: list[Literal["off", "on"]]
    default: Literal["on"] = "on"


class ModelAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a model that generates text."""

    vision: bool
    trained_for_tool_use: bool
    reasoning: ReasoningAbility | UnsetType = UNSET


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """An installed model, or an alias of one, in version 1."""

    type: Literal["llm", "embedding"]
    publisher: str
    key: str
    display_name: str
    architecture: str
    quantization: QuantizationInfo
    size_bytes: int
    params_string: str
    loaded_instances: list[Instance]
    max_context_length: int
    format: FileFormat
    capabilities: ModelAbilities | UnsetType = UNSET
    description: str


class KnownModels(msgspec.Struct, frozen=True):
    """The list of models in version 1."""

    models: list[KnownModel]


class LoadBody(msgspec.Struct, kw_only=True):
    """The body of `POST /api/v1/models/load`; what is not here is ignored."""

    model: ModelKey
    context_length: TokenCount | None = None
    flash_attention: bool | None = None
    echo_load_config: bool | None = None
    ttl: TimeToLive | None = None


class LoadedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is loaded now."""

    type: Literal["llm", "embedding"]
    instance_id: str
    load_time_seconds: float
    status: Literal["loaded"] = "loaded"
    load_config: InstanceConfig | UnsetType = UNSET


class UnloadBody(msgspec.Struct, kw_only=True):
    """The body of `POST /api/v1/models/unload`."""

    instance_id: ModelKey


class UnloadedAnswer(msgspec.Struct, frozen=True):
    """The model that is not loaded any more."""

    instance_id: str
