"""Ollama's wire types for its library of models; source: api/types.go of Ollama."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from .types import InputMessage


class Version(msgspec.Struct, frozen=True):
    """Which Ollama this daemon is compatible with, and what it really is."""

    version: str
    ingle: str


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is; the lengths are newer than most clients."""

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
    """All of them, the newest first."""

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
    """All of them, the one that stays longest first."""

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


class ShownMessage(msgspec.Struct, frozen=True):
    """A message that every conversation begins with."""

    role: str
    content: str


class ShownModel(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one model; `model_info` has the keys of its file."""

    license: str
    modelfile: str
    parameters: str
    template: str
    system: str
    details: Details
    messages: list[ShownMessage]
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


class CreateRequest(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """The body of `POST /api/create`: from a model, or from uploaded `files` by their digests."""

    model: str | None = None
    name: str | None = None
    stream: bool | None = None
    from_: str | None = None
    files: dict[str, str] | None = None
    adapters: dict[str, str] | None = None
    template: str | None = None
    license: str | list[str] | None = None
    system: str | None = None
    parameters: dict[str, Any] | None = None
    messages: list[InputMessage] | None = None
    quantize: str | None = None
    quantization: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a download or of a creation; the last says `success`."""

    status: str
    digest: str | UnsetType = UNSET
    total: int | UnsetType = UNSET
    completed: int | UnsetType = UNSET
