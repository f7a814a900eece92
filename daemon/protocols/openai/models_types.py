"""What lists of models are made of."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ingle.models.model_task import ModelTask

from ...model_process.model_run import ModelState

Capability = Literal["completion", "tools", "thinking", "insert", "embedding", "rerank"]


class ModelMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What llama-server tells of a model; `n_vocab` is known of loaded ones only."""

    n_ctx: int
    n_ctx_train: int
    n_params: int
    size: int
    n_vocab: int | UnsetType = UNSET
    ftype: str


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model that may be asked for; an alias has the model it stands for as its `root`.

    `context_length` tokens are what a request really gets, and vLLM calls them `max_model_len`.
    `capabilities` are told in Ollama's words.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["ingle"] = "ingle"
    context_length: int
    max_model_len: int
    task: ModelTask
    state: ModelState
    capabilities: list[Capability]
    meta: ModelMeta
    root: str | UnsetType = UNSET
    ingle: RouteDetails | UnsetType = UNSET


class RouteFacts(msgspec.Struct, frozen=True):
    """That a name is a route: `provider/model` elsewhere, and which of both is preferred."""

    remote: str
    prefer: Literal["local", "cloud"]


class RouteDetails(msgspec.Struct, frozen=True):
    """What only ingle tells."""

    route: RouteFacts


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, aliases last."""

    object: Literal["list"] = "list"
    data: list[Model]
