"""Models under `/ingle/v1/`: list, fit, add, remove, load, unload, download."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.model_task import Pooling
from ingle.models.store.model_updates import find_update

from ...access.permission import current_permission
from ...client.generation_types import ErrorEvent
from ...client.model_types import (
    DownloadProgress,
    LoadedModel,
    ModelEntries,
    ModelEntry,
    PromptsAhead,
    PullCancelling,
    Removed,
    Unloaded,
    UpstreamChange,
)
from ...errors import InvalidBody
from ...http.bodies import (
    NATIVE,
    encode_event,
    query_flag,
)
from ...http.route_access import LISTS, MODELS, MODELS_UNRESTRICTED
from ...http.route_spec import Parameter, StreamSpec
from ...http.sse_writer import EventStream, EventWriter
from ...library.pulls import Pull
from ...library.remove_model import remove_model
from ...library.update_model import discard_kept, roll_back_model, start_update
from ...load_planning.fit_report import FitReport, report_fit
from ...load_planning.load_options import LoadOptions
from ..services_api import ServicesApi
from .model_entries import find_entry, list_entries, model_entry, removed
from .native_api import NATIVE_STREAM, native_route
from .types import AddRequest, LoadRequest, ModelRequest, PrepareRequest, UnloadRequest

LOAD_ERRORS = (404, 409, 422, 500, 503, 507)
COMPARE_PARAMETER = Parameter(
    "compare", "query", bool, "Read files of the same length first, to find identical ones."
)
CATALOG_PARAMETER = Parameter(
    "catalog", "query", bool, "Also find a model of the catalog that is not installed."
)
REMOVAL_PARAMETERS = (
    Parameter("dry_run", "query", bool, "Only report what would be removed."),
    Parameter("delete_file", "query", bool, "Also delete a file that another program keeps."),
)
FIT_PARAMETERS = (
    Parameter("model", "query", str, "Any name or path of it, or `hf.co/owner/repo:QUANT`."),
    Parameter("context", "query", int, "The context to assume, in tokens."),
)


class NativeModelsApi(ServicesApi):
    """Routes about stored and loaded models, and downloads."""

    _preparing: asyncio.Task[None] | None = None
    """Referred to so that it is not collected while it loads."""

    @native_route("GET", "/ingle/v1/models", access=LISTS, parameters=(COMPARE_PARAMETER,))
    async def models(self, request: Request) -> ModelEntries:
        """Installed models, then those of the catalog."""
        if query_flag(request, "compare"):
            await asyncio.to_thread(self._services.store.compare)
        return await asyncio.to_thread(list_entries, self._services)

    @native_route(
        "GET",
        "/ingle/v1/fit",
        access=LISTS,
        parameters=FIT_PARAMETERS,
        errors=(400, 404, 422, 500, 502),
    )
    async def fit(self, request: Request) -> FitReport:
        """Whether and how a model would run here, installed or not."""
        reference = request.query_params.get("model", "")
        if not reference:
            raise InvalidBody("'model' must name a model.", param="model")
        text = request.query_params.get("context", "")
        if text and not (text.isdecimal() and 0 < int(text) <= 2**24):
            raise InvalidBody("'context' must be a number of tokens.", param="context")
        context = int(text) if text else None
        return await asyncio.to_thread(report_fit, self._services, reference, context)

    @native_route(
        "GET",
        "/ingle/v1/models/{name:path}",
        access=LISTS,
        parameters=(CATALOG_PARAMETER,),
        errors=(404, 422),
    )
    async def model(self, request: Request, name: str) -> ModelEntry:
        """An installed model, by any of its names or its path."""
        catalog = query_flag(request, "catalog")
        return await asyncio.to_thread(find_entry, self._services, name, catalog=catalog)

    @native_route(
        "DELETE",
        "/ingle/v1/models/{name:path}",
        access=MODELS,
        parameters=REMOVAL_PARAMETERS,
        errors=(404, 409, 422),
    )
    async def remove(self, request: Request, name: str) -> Removed:
        """Unload a model and remove its files, or report what would be removed."""
        services = self._services
        delete_file = query_flag(request, "delete_file")
        if query_flag(request, "dry_run"):
            plan = await asyncio.to_thread(
                services.store.plan_removal, name, delete_file=delete_file
            )
            current_permission().check_model(plan.name)
        else:
            plan = await remove_model(services, name, delete_file=delete_file)
        return removed(services, plan)

    @native_route(
        "POST",
        "/ingle/v1/models",
        access=MODELS_UNRESTRICTED,
        errors=(400, 404, 409, 413, 422, 502, 507),
    )
    async def add(self, body: AddRequest) -> ModelEntry:
        """Give a name to a file or folder on this machine."""
        services = self._services
        if not Path(body.path).is_absolute():
            raise InvalidBody("'path' must be absolute.", param="path")
        projector = None if body.mmproj is None else Path(body.mmproj)
        if projector is not None and not projector.is_absolute():
            raise InvalidBody("'mmproj' must be absolute.", param="mmproj")
        model = await asyncio.to_thread(services.copier.add, Path(body.path), body.name, projector)
        return await asyncio.to_thread(model_entry, services, model)

    @native_route(
        "POST", "/ingle/v1/load", access=MODELS, errors=(*LOAD_ERRORS, 413), cancellable=True
    )
    async def load(self, body: LoadRequest) -> LoadedModel:
        """Load a model, and answer once it is ready.

        A client that disconnects stops waiting for it.
        """
        if body.draft is not None:
            current_permission().check_unrestricted()  # a second model, which may be any file
        return await self._services.manager.load(
            body.model,
            LoadOptions(
                context=body.context,
                engine=body.engine,
                kv_type=body.kv_type,
                quantize=body.quantize,
                tensor_parallel=body.tensor_parallel,
                draft=body.draft,
                pooling=Pooling(body.pooling) if body.pooling is not None else None,
            ),
            keep_alive=body.keep_alive,
            pin=body.pin,
        )

    @native_route("POST", "/ingle/v1/prepare", access=MODELS_UNRESTRICTED, errors=(404, 413, 422))
    async def prepare(self, body: PrepareRequest) -> PromptsAhead:
        """Load a model and compute an agent's known prompts ahead, after the answer to this.

        Does nothing for an agent that no model has seen yet.
        """
        services = self._services
        model = await asyncio.to_thread(services.resolve, body.model)
        known = await services.warmer.adopt(model, body.agent)
        if known:
            self._preparing = asyncio.create_task(services.manager.preload([model.name]))
        return PromptsAhead(model=model.name, known=len(known))

    @native_route(
        "POST", "/ingle/v1/unload", access=MODELS, body_optional=True, errors=(404, 413, 422)
    )
    async def unload(self, body: UnloadRequest) -> Unloaded:
        """Let running answers finish, then end the model's process.

        No body is the same as an empty object.
        """
        return Unloaded(await self._services.manager.unload(body.model))

    @native_route(
        "POST",
        "/ingle/v1/pull",
        access=MODELS,
        stream=StreamSpec({"progress": DownloadProgress, "done": ModelEntry, "error": ErrorEvent}),
        errors=(413, 503),
    )
    async def pull(self, body: ModelRequest) -> Response:
        """Download a model, or join its download."""
        pull = self._services.pulls.join(body.model)
        return EventStream(partial(self._follow_pull, pull), style=NATIVE_STREAM)

    @native_route("POST", "/ingle/v1/update", access=MODELS, errors=(404, 413, 422, 503))
    async def update(self, body: ModelRequest) -> UpstreamChange:
        """Ask the source of an installed model whether it has another file now."""
        services = self._services
        model = await asyncio.to_thread(services.resolve, body.model)
        found = await asyncio.to_thread(find_update, services.store, model)
        return msgspec.convert(found, UpstreamChange, from_attributes=True)

    @native_route(
        "POST",
        "/ingle/v1/update/apply",
        access=MODELS,
        stream=StreamSpec({"progress": DownloadProgress, "done": ModelEntry, "error": ErrorEvent}),
        errors=(404, 413, 422, 503),
    )
    async def apply_update(self, body: ModelRequest) -> Response:
        """Download the new version of a model and use it, or join its download.

        The version that was in use is kept.
        """
        pull = await start_update(self._services, body.model)
        return EventStream(partial(self._follow_pull, pull), style=NATIVE_STREAM)

    @native_route("POST", "/ingle/v1/update/rollback", access=MODELS, errors=(404, 409, 413, 422))
    async def roll_back(self, body: ModelRequest) -> ModelEntry:
        """Use the kept version of a model, and keep the one that was in use."""
        model = await roll_back_model(self._services, body.model)
        return await asyncio.to_thread(model_entry, self._services, model)

    @native_route("POST", "/ingle/v1/update/discard", access=MODELS, errors=(404, 409, 413, 422))
    async def discard(self, body: ModelRequest) -> Removed:
        """Remove the kept version of a model."""
        name, freed = await discard_kept(self._services, body.model)
        return Removed(removed=name, freed=freed)

    @native_route("POST", "/ingle/v1/pull/cancel", access=MODELS, errors=(413,))
    async def cancel_pull(self, body: ModelRequest) -> PullCancelling:
        """Stop a download, and keep what was received."""
        cancelled = await self._services.pulls.cancel(body.model)
        return PullCancelling(self._services.canonical(body.model), cancelled)

    async def _follow_pull(self, pull: Pull, out: EventWriter) -> None:
        async for progress in pull.follow():
            if not pull.done:
                await out.send(encode_event(msgspec.json.encode(progress), event="progress"))
        try:
            model = await pull.result()
            entry = await asyncio.to_thread(model_entry, self._services, model)
        except Exception as error:
            await out.send(NATIVE.frame(error))
        else:
            await out.send(encode_event(msgspec.json.encode(entry), event="done"))
