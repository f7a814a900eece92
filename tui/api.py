"""The payloads of the daemon's native API, as far as the chat reads them (docs/api.md)."""

from __future__ import annotations

import msgspec


class ErrorBody(msgspec.Struct, frozen=True):
    """What went wrong: a stable code, a sentence for people, and what to do next."""

    message: str
    code: str | None = None
    hint: str | None = None


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The shape every error arrives in."""

    error: ErrorBody


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with a process, or the trace of one that failed; context and KV are in tokens."""

    name: str
    state: str
    fraction: float = 0.0
    error: ErrorBody | str | None = None
    device: str = ""
    context: int = 0
    kv_capacity: int = 0
    kv_used: int = 0

    @property
    def failure(self) -> str | None:
        """The sentence that says why it failed."""
        return self.error.message if isinstance(self.error, ErrorBody) else self.error


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is installed or can be; size in bytes, context in tokens."""

    name: str
    installed: bool
    state: str
    default: bool = False
    size: int | None = None
    parameters: int | None = None
    quantization: str | None = None
    context: int | None = None
    licence: str | None = None
    description: str | None = None
    chat: bool = True
    task: str = "generate"

    @property
    def writes(self) -> bool:
        """False for a model that makes vectors or scores of texts."""
        return self.task == "generate"


class ModelList(msgspec.Struct, frozen=True):
    """The answer to `GET /ingle/v1/models`."""

    models: list[ModelEntry]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `GET /ingle/v1/status`, in part."""

    version: str
    default_model: str | None = None
    models: list[LoadedModel] = []


class PullProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a download is; bytes and seconds, None where not known."""

    model: str
    status: str
    source: str | None = None
    received: int = 0
    total: int | None = None
    bytes_per_second: float | None = None
    eta: float | None = None


class GaugesEvent(msgspec.Struct, frozen=True):
    """The `gauges` event of the shared stream, in part."""

    models: list[LoadedModel] = []


class GenerationCreated(msgspec.Struct, frozen=True):
    """The answer to `POST /ingle/v1/generations`."""

    id: str
    model: str


class Loading(msgspec.Struct, frozen=True):
    """The model is being started; `fraction` is 0 to 1."""

    model: str
    fraction: float


class Started(msgspec.Struct, frozen=True):
    """The prompt was admitted; all numbers are tokens."""

    prompt_tokens: int
    cached_tokens: int = 0
    context: int = 0


class Delta(msgspec.Struct, frozen=True):
    """New text, and the number of tokens it took."""

    text: str
    tokens: int = 1


class Thought(msgspec.Struct, frozen=True):
    """What the model thinks before it answers, and the number of tokens it took."""

    text: str
    tokens: int = 1


class Finished(msgspec.Struct, frozen=True):
    """The answer ended; tokens and seconds."""

    reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    context: int = 0
    queue_seconds: float = 0.0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0


GenerationEvent = Loading | Started | Thought | Delta | Finished
