"""The models that requests may name, aliases included, for clients of several servers."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.model_info import ModelInfo
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ...errors import AnthropicError
from ...http.bodies import OPENAI, JSONResponse
from ...http.route_access import LISTS
from ...http.route_spec import AlternativeResponse, route
from ...library.model_facts import Capabilities, loaded_capabilities
from ...load_planning.usable_context import usable_context
from ...model_process.model_run import ModelState
from ..anthropic.list_pages import PAGING, AnthropicPage, anthropic_page
from ..anthropic.models import (
    HEADER,
    AnthropicModel,
    is_anthropic,
    negotiates_error_format,
)
from ..services_api import ServicesApi

Capability = Literal[
    "completion",
    "tools",
    "thinking",
    "insert",
    "vision",
    "embedding",
    "rerank",
    "transcription",
]


class ModelMeta(msgspec.Struct, frozen=True, kw_only=True):
    """llama-server's facts of a model; `n_vocab` is known of loaded ones only."""

    n_ctx: int
    n_ctx_train: int
    n_params: int
    size: int
    n_vocab: int | UnsetType = UNSET
    ftype: str


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model that requests can name; the `root` of an alias is its model.

    A request can have a context of `context_length` tokens, which vLLM calls `max_model_len`.
    `capabilities` are those of Ollama's API.
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
    """The remote target of a route, `provider/model`, and whether it is preferred."""

    remote: str
    prefer: Literal["privacy", "cost", "speed", "quality", "local", "cloud"]


class RouteDetails(msgspec.Struct, frozen=True):
    """Fields that only ingle has."""

    route: RouteFacts


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All models, aliases last."""

    object: Literal["list"] = "list"
    data: list[Model]


_route = partial(route, "GET", access=LISTS, error_format=OPENAI)


class ModelsApi(ServicesApi):
    """`GET /v1/models` and `GET /v1/models/{id}`."""

    @_route(
        "/v1/models",
        response=ModelList,
        alternative=AlternativeResponse(AnthropicPage[AnthropicModel], AnthropicError),
        parameters=(HEADER, *PAGING),
    )
    @negotiates_error_format
    async def list_models(self, request: Request) -> Response:
        """The installed models, those loaded from elsewhere, and aliases."""
        models = await self.listed()
        if is_anthropic(request):
            # Anthropic's API has only models that chat.
            chatting = [model for model in models if model.task is ModelTask.GENERATE]
            listed = [_anthropic_model(model) for model in chatting]
            return JSONResponse(anthropic_page(listed, request))
        return JSONResponse(ModelList(data=models))

    @_route(
        "/v1/models/{id:path}",
        response=Model,
        alternative=AlternativeResponse(AnthropicModel, AnthropicError),
        parameters=(HEADER,),
        errors=(404, 422),
    )
    @negotiates_error_format
    async def get_model(self, request: Request) -> Response:
        """One installed model."""
        reference: str = request.path_params["id"]
        stored = await asyncio.to_thread(self._services.resolve, reference)
        model = await self._describe(stored)
        if reference != model.id and self._services.aliases.target(reference) is not None:
            model = _alias(model, reference)
        return JSONResponse(_anthropic_model(model) if is_anthropic(request) else model)

    async def listed(self) -> list[Model]:
        """All models, then their aliases and the routes."""
        stored = await asyncio.to_thread(self._services.models)
        models = [await self._describe(model) for model in stored]
        return models + self._aliases(models) + await asyncio.to_thread(self._routes, models)

    def _aliases(self, models: list[Model]) -> list[Model]:
        """One more entry for each alias of these models."""
        known = {model.id: model for model in models}
        entries = [
            (name, self._services.canonical(target))
            for name, target in self._services.aliases.entries()
            if name not in known
        ]
        return [_alias(known[target], name) for name, target in entries if target in known]

    def _routes(self, models: list[Model]) -> list[Model]:
        """The routes with a remote target, each with the facts of its local model."""
        known = {model.id: model for model in models}
        listed: list[Model] = []
        for target in self._services.router.targets():
            local = known.get(self._services.canonical(target.local))
            if local is not None and target.route.name not in known:
                facts = RouteFacts(target.remote, target.route.prefer)
                route = _alias(local, target.route.name)
                listed.append(msgspec.structs.replace(route, ingle=RouteDetails(facts)))
        return listed

    async def _describe(self, model: StoredModel) -> Model:
        run = self._services.manager.find(model)
        info = run.info if run is not None else None
        context = await asyncio.to_thread(usable_context, self._services, model)
        return Model(
            id=model.name,
            created=await asyncio.to_thread(_created, Path(model.path)),
            context_length=context,
            max_model_len=context,
            task=model.task,
            state=run.state if run is not None else ModelState.STOPPED,
            capabilities=_capabilities(await self._capabilities(model, info)),
            meta=ModelMeta(
                n_ctx=context,
                n_ctx_train=info.trained_context if info is not None else model.context,
                n_params=model.parameters,
                size=model.size,
                n_vocab=info.vocab_size if info is not None else UNSET,
                ftype=model.quantization,
            ),
        )

    async def _capabilities(self, model: StoredModel, info: ModelInfo | None) -> Capabilities:
        if info is not None:
            return loaded_capabilities(info)
        return (await asyncio.to_thread(self._services.facts.read, model)).capabilities


def _capabilities(has: Capabilities) -> list[Capability]:
    match has.task:
        case ModelTask.EMBED:
            return ["embedding"]
        case ModelTask.RERANK:
            return ["rerank"]
        case ModelTask.TRANSCRIBE:
            return ["transcription"]
        case ModelTask.GENERATE:
            pass
    said: list[tuple[Capability, bool]] = [
        ("completion", True),
        ("tools", has.calls_tools),
        ("thinking", has.reasons),
        ("insert", has.infills),
        ("vision", has.sees),
    ]
    return [capability for capability, true in said if true]


def _alias(model: Model, name: str) -> Model:
    return msgspec.structs.replace(model, id=name, root=model.id)


def _anthropic_model(model: Model) -> AnthropicModel:
    thinks, sees = "thinking" in model.capabilities, "vision" in model.capabilities
    return AnthropicModel.of(
        model.id, model.created, model.context_length, thinks=thinks, sees=sees
    )


def _created(path: Path) -> int:
    try:
        return int(path.stat().st_mtime)
    except OSError:
        return 0
