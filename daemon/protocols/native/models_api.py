"""Stored and loaded models under `/ingle/v1/`: list, fit, add, remove, load, unload."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ingle.models.model_task import Pooling
from ingle.models.store.model_copies import ModelCopier

from ...access.permission import current_permission
from ...client.model_types import LoadedModel, ModelEntries, ModelEntry, Removed, Unloaded
from ...errors import InvalidBody
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.request_body import parse, query_flag, read_body, read_json
from ...http.route_access import LISTS, MODELS, MODELS_UNRESTRICTED
from ...http.route_spec import Parameter, route
from ...http.sse_writer import (
    run_until_disconnect,
)
from ...library.remove_model import remove_model
from ...load_planning.fit_report import FitReport, report_fit
from ...load_planning.load_planner import LoadOptions
from ...services import Services
from .model_entries import list_entries, model_entry, removed
from .types import AddRequest, LoadRequest, UnloadRequest

LOAD_ERRORS = (404, 409, 422, 500, 503, 507)
COMPARE_PARAMETER = Parameter(
    "compare", "query", bool, "Read files of the same length first, to tell which are the same."
)
REMOVAL_PARAMETERS = (
    Parameter("dry_run", "query", bool, "Only say what would go."),
    Parameter("delete_file", "query", bool, "A file that another program keeps goes, too."),
)
FIT_PARAMETERS = (
    Parameter("model", "query", str, "Any name or path of it, or `hf.co/owner/repo:QUANT`."),
    Parameter("context", "query", int, "The context that somebody would ask for."),
)


class NativeModelsApi:
    """`/ingle/v1/models`, `/ingle/v1/fit`, `/ingle/v1/load` and `/ingle/v1/unload`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route(
        "GET",
        "/ingle/v1/models",
        access=LISTS,
        error_format=NATIVE,
        response=ModelEntries,
        parameters=(COMPARE_PARAMETER,),
    )
    async def models(self, request: Request) -> Response:
        """Installed models, then what the catalog offers."""
        if query_flag(request, "compare"):
            await asyncio.to_thread(self._services.store.compare)
        return JSONResponse(await asyncio.to_thread(list_entries, self._services))

    @route(
        "GET",
        "/ingle/v1/fit",
        access=LISTS,
        error_format=NATIVE,
        response=FitReport,
        parameters=FIT_PARAMETERS,
        errors=(400, 404, 422, 500, 502),
    )
    async def fit(self, request: Request) -> Response:
        """Whether a model would run here and how, be it here or still elsewhere."""
        reference = request.query_params.get("model", "")
        if not reference:
            raise InvalidBody("'model' must name a model.", param="model")
        asked = request.query_params.get("context", "")
        if asked and not (asked.isdecimal() and 0 < int(asked) <= 2**24):
            raise InvalidBody("'context' must be a number of tokens.", param="context")
        context = int(asked) if asked else None
        return JSONResponse(await asyncio.to_thread(report_fit, self._services, reference, context))

    @route(
        "GET",
        "/ingle/v1/models/{name:path}",
        access=LISTS,
        error_format=NATIVE,
        response=ModelEntry,
        errors=(404, 422),
    )
    async def model(self, request: Request) -> Response:
        """One model that is here, by any name or path of it."""
        services, reference = self._services, str(request.path_params["name"])
        model = await asyncio.to_thread(services.resolve, reference)
        return JSONResponse(await asyncio.to_thread(model_entry, services, model))

    @route(
        "DELETE",
        "/ingle/v1/models/{name:path}",
        access=MODELS,
        error_format=NATIVE,
        response=Removed,
        parameters=REMOVAL_PARAMETERS,
        errors=(404, 409, 422),
    )
    async def remove(self, request: Request) -> Response:
        """Unload a model and remove its files, or say what would go."""
        services, reference = self._services, str(request.path_params["name"])
        delete_file = query_flag(request, "delete_file")
        if query_flag(request, "dry_run"):
            plan = await asyncio.to_thread(
                services.store.plan_removal, reference, delete_file=delete_file
            )
            current_permission().check_model(plan.name)
        else:
            plan = await remove_model(services, reference, delete_file=delete_file)
        return JSONResponse(removed(services, plan))

    @route(
        "POST",
        "/ingle/v1/models",
        access=MODELS_UNRESTRICTED,
        error_format=NATIVE,
        request=AddRequest,
        response=ModelEntry,
        errors=(400, 404, 409, 413, 422, 502, 507),
    )
    async def add(self, request: Request) -> Response:
        """Give a file or folder that lies on this machine a name."""
        services = self._services
        body = await read_json(request, AddRequest)
        if not Path(body.path).is_absolute():
            raise InvalidBody("'path' must be absolute.", param="path")
        maker = ModelCopier(services.store)
        model = await asyncio.to_thread(maker.add, Path(body.path), body.name)
        return JSONResponse(await asyncio.to_thread(model_entry, services, model))

    @route(
        "POST",
        "/ingle/v1/load",
        access=MODELS,
        error_format=NATIVE,
        request=LoadRequest,
        response=LoadedModel,
        errors=(*LOAD_ERRORS, 413),
    )
    async def load(self, request: Request) -> Response:
        """Load a model, and answer once it is ready.

        A client that leaves no longer counts as waiting.
        """
        body = await read_json(request, LoadRequest)
        if body.draft is not None:
            current_permission().check_unrestricted()  # a second model, which may be any file
        loading = self._services.manager.load(
            body.model,
            LoadOptions(
                context=body.context,
                engine=body.engine,
                kv_type=body.kv_type,
                quantize=body.quantize,
                draft=body.draft,
                pooling=Pooling(body.pooling) if body.pooling is not None else None,
            ),
            keep_alive=body.keep_alive,
            pin=body.pin,
        )
        return JSONResponse(await run_until_disconnect(request.receive, loading))

    @route(
        "POST",
        "/ingle/v1/unload",
        access=MODELS,
        error_format=NATIVE,
        request=UnloadRequest,
        body_optional=True,
        response=Unloaded,
        errors=(404, 413, 422),
    )
    async def unload(self, request: Request) -> Response:
        """Let running answers finish, then end the model's process.

        No body is the same as an empty object.
        """
        content = await read_body(request)
        body = parse(content or b"{}", UnloadRequest)
        return JSONResponse(Unloaded(await self._services.manager.unload(body.model)))
