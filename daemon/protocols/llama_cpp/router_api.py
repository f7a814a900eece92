"""llama-server's router API: lists, loads and unloads models."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from ...client.model_types import LoadedModel
from ...http.bodies import LLAMA_CPP, encode_event
from ...http.route_access import LISTS, MODELS, READ
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import EventStream, EventWriter, StreamStyle
from ...model_process.model_run import ModelState
from ..openai.models_api import ModelMeta, ModelsApi
from ..services_api import ServicesApi

Status = Literal["unloaded", "loading", "loaded"]


class StatusValue(msgspec.Struct, frozen=True):
    """Whether a model is loaded now."""

    value: Status


class Architecture(msgspec.Struct, frozen=True):
    """What a model reads; all write text."""

    input_modalities: tuple[str, ...] = ("text",)
    output_modalities: tuple[str, ...] = ("text",)


class RoutedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with its other names."""

    id: str
    aliases: list[str]
    tags: list[str] = []
    object: Literal["model"] = "model"
    owned_by: Literal["ingle"] = "ingle"
    created: int
    status: StatusValue
    architecture: Architecture = Architecture()
    meta: ModelMeta


class RoutedModels(msgspec.Struct, frozen=True):
    """The answer of `GET /models`."""

    data: list[RoutedModel]
    object: Literal["list"] = "list"


class ModelBody(msgspec.Struct):
    """The body of `POST /models/load` and `POST /models/unload`."""

    model: Annotated[str, Meta(min_length=1)]


class Success(msgspec.Struct, frozen=True):
    """The request succeeded."""

    success: Literal[True] = True


class LoadingProgress(msgspec.Struct, frozen=True):
    """The loaded fraction of the weights, 0 to 1."""

    value: float
    current: str = "text_model"
    stages: tuple[str, ...] = ("text_model",)


class ChangedStatus(msgspec.Struct, frozen=True):
    """The state of a model."""

    status: Status
    progress: LoadingProgress | UnsetType = UNSET


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One event of `GET /models/sse`."""

    model: str
    event: Literal["model_status"] = "model_status"
    data: ChangedStatus


class _Changed(msgspec.Struct):
    """The fields of a `LoadedModel` that the events have."""

    name: str
    state: ModelState
    fraction: float


_changed_decoder = msgspec.json.Decoder(_Changed)
_named_route = partial(
    route,
    "POST",
    access=MODELS,
    error_format=LLAMA_CPP,
    errors=(*GENERATION_ERRORS, 409),
)


_route = partial(route, "GET", error_format=LLAMA_CPP)


class RouterApi(ServicesApi):
    """`/models` and the routes below it."""

    @_route("/models", access=LISTS)
    async def list_models(self) -> RoutedModels:
        """The models and their states, in llama-server's format."""
        models = await ModelsApi(self._services).listed()
        names: dict[str, list[str]] = {}
        for model in models:
            if isinstance(model.root, str):
                names.setdefault(model.root, []).append(model.id)
        return RoutedModels(
            [
                RoutedModel(
                    id=model.id,
                    aliases=names.get(model.id, []),
                    created=model.created,
                    status=StatusValue(_status(model.state)),
                    architecture=Architecture(
                        ("text", "image") if "vision" in model.capabilities else ("text",)
                    ),
                    meta=model.meta,
                )
                for model in models
                if model.root is UNSET
            ]
        )

    @_route("/models/sse", access=READ, stream=StreamSpec({"": ModelStatus}))
    async def events(self) -> Response:
        """Changes of models' states, as they happen, in llama-server's format."""
        return EventStream(self._follow, style=StreamStyle(on_error=LLAMA_CPP.frame))

    @_named_route("/models/load", cancellable=True)
    async def load(self, body: ModelBody) -> Success:
        """Load a model."""
        await self._services.manager.load(body.model)
        return Success()

    @_named_route("/models/unload")
    async def unload(self, body: ModelBody) -> Success:
        """Unload a model."""
        await self._services.manager.unload(body.model)
        return Success()

    async def _follow(self, out: EventWriter) -> None:
        with self._services.hub.subscribe() as subscription:
            for model in self._services.manager.loaded():
                await out.send(_frame(model))
            out.write(b"")
            async for event in subscription:
                if event.name == "model":
                    await out.send(_frame(_changed_decoder.decode(event.data)))


def _status(state: ModelState) -> Status:
    match state:
        case ModelState.STARTING:
            return "loading"
        case ModelState.READY | ModelState.DRAINING:
            return "loaded"
        case ModelState.STOPPED | ModelState.STOPPING | ModelState.FAILED:
            return "unloaded"


def _frame(model: LoadedModel | _Changed) -> bytes:
    status = _status(model.state)
    progress = LoadingProgress(model.fraction) if status == "loading" else UNSET
    event = ModelStatus(model=model.name, data=ChangedStatus(status, progress))
    return encode_event(msgspec.json.encode(event))
