"""The native API under `/ingle/v1/`: everything the terminal chat and the commands need."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.download.pull_progress import PullProgress
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import Pooling
from ingle.models.store.model_copies import ModelCopier

from ...access.permission import current_permission
from ...errors import InvalidBody, describe
from ...generations.generation import (
    ArgumentsEvent,
    DeltaEvent,
    ErrorEvent,
    FinishedEvent,
    Generation,
    GenerationStatus,
    LoadingEvent,
    StartedEvent,
    ToolCallEvent,
)
from ...http.json_response import JSONResponse
from ...http.query_flag import query_flag
from ...http.request_body import parse, read_body, read_json
from ...http.route_spec import Parameter, RouteSpec, StreamSpec
from ...http.sse_writer import (
    EventStream,
    EventWriter,
    StreamStyle,
    encode_event,
    run_until_disconnect,
)
from ...library.pulls import Pull
from ...library.remove_model import remove_model
from ...load_planning.fit_report import FitReport, report_fit
from ...load_planning.load_planner import LoadOptions
from ...model_process.kv_map_watch import PagesEvent
from ...model_process.loaded_model import LoadedModel
from ...routing.route_header import RouteTaken
from ...services import Services
from ..ingle_options import PRIVATE_HEADER
from .model_entries import list_entries, model_entry, removed
from .start_generation import start_generation
from .types import (
    AddRequest,
    GaugesEvent,
    GenerationRequest,
    GenerationStarted,
    LoadRequest,
    ModelEntries,
    ModelEntry,
    ModelRequest,
    PullCancelling,
    Removed,
    ShuttingDownNotice,
    Status,
    Unloaded,
    UnloadRequest,
)

LOAD_ERRORS = (404, 409, 422, 500, 503, 507)
GENERATION_EVENTS = StreamSpec(
    {
        "loading": LoadingEvent,
        "route": RouteTaken,
        "started": StartedEvent,
        "reasoning": DeltaEvent,
        "delta": DeltaEvent,
        "tool_call": ToolCallEvent,
        "arguments": ArgumentsEvent,
        "finished": FinishedEvent,
        "error": ErrorEvent,
    }
)
HUB_EVENTS = StreamSpec(
    {"gauges": GaugesEvent, "model": LoadedModel, "pull": PullProgress, "pages": PagesEvent}
)
COMPARE_PARAMETER = Parameter(
    "compare", "query", bool, "Read files of the same length first, to tell which are the same."
)
REMOVAL_PARAMETERS = (
    Parameter("dry_run", "query", bool, "Only say what would go."),
    Parameter("delete_file", "query", bool, "A file that another program keeps goes, too."),
)
PAGES_PARAMETER = Parameter(
    "pages", "query", str, "Tell of the pages of this model's KV cache, too."
)
FIT_PARAMETERS = (
    Parameter("model", "query", str, "Any name or path of it, or `hf.co/owner/repo:QUANT`."),
    Parameter("context", "query", int, "The context that somebody would ask for."),
)
FOLLOW_PARAMETERS = (
    Parameter("after", "query", int, "Leave out the events up to this number."),
    Parameter("Last-Event-ID", "header", int, "The same, as browsers say it; it counts first."),
)

_PATIENCE = 2.0
"""Seconds that the meters of devices are waited for."""


class NativeApi:
    """The routes under `/ingle/v1/`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._version = version("ingle")
        self._encoder = msgspec.json.Encoder()
        self._style = StreamStyle(on_error=self._error_frame)
        self._model_request = msgspec.json.Decoder(ModelRequest)
        self._add_request = msgspec.json.Decoder(AddRequest)
        self._load_request = msgspec.json.Decoder(LoadRequest)
        self._unload_request = msgspec.json.Decoder(UnloadRequest)
        self._generation_request = msgspec.json.Decoder(GenerationRequest)

    def routes(self) -> list[RouteSpec]:
        """All of them."""
        return [
            *self._daemon_routes(),
            *self._store_routes(),
            *self._loading_routes(),
            *self._generation_routes(),
        ]

    def _daemon_routes(self) -> list[RouteSpec]:
        return [
            RouteSpec(
                method="GET",
                path="/ingle/v1/status",
                endpoint=self.status,
                summary="The daemon, its memory, and the loaded models.",
                response=Status,
            ),
            RouteSpec(
                method="GET",
                path="/ingle/v1/events",
                endpoint=self.events,
                summary="Everything that moves.",
                stream=HUB_EVENTS,
                parameters=(PAGES_PARAMETER,),
                errors=(404, 422),
            ),
            RouteSpec(
                method="POST",
                path="/ingle/v1/shutdown",
                endpoint=self.shutdown,
                summary="End the daemon once running answers are finished.",
                response=ShuttingDownNotice,
                status=202,
            ),
        ]

    def _store_routes(self) -> list[RouteSpec]:
        return [
            RouteSpec(
                method="GET",
                path="/ingle/v1/models",
                endpoint=self.models,
                summary="Installed models, then what the catalog offers.",
                response=ModelEntries,
                parameters=(COMPARE_PARAMETER,),
            ),
            RouteSpec(
                method="GET",
                path="/ingle/v1/fit",
                endpoint=self.fit,
                summary="Whether a model would run here and how, be it here or still elsewhere.",
                response=FitReport,
                parameters=FIT_PARAMETERS,
                errors=(400, 404, 422, 500, 502),
            ),
            RouteSpec(
                method="GET",
                path="/ingle/v1/models/{name:path}",
                endpoint=self.model,
                summary="One model that is here, by any name or path of it.",
                response=ModelEntry,
                errors=(404, 422),
            ),
            RouteSpec(
                method="DELETE",
                path="/ingle/v1/models/{name:path}",
                endpoint=self.remove,
                summary="Unload a model and remove its files, or say what would go.",
                response=Removed,
                parameters=REMOVAL_PARAMETERS,
                errors=(404, 409, 422),
            ),
            RouteSpec(
                method="POST",
                path="/ingle/v1/models",
                endpoint=self.add,
                summary="Give a file or folder that lies on this machine a name.",
                request=AddRequest,
                response=ModelEntry,
                errors=(400, 404, 409, 413, 422, 502, 507),
            ),
            RouteSpec(
                method="POST",
                path="/ingle/v1/pull",
                endpoint=self.pull,
                summary="Download a model, or join its download.",
                request=ModelRequest,
                stream=StreamSpec(
                    {"progress": PullProgress, "done": ModelEntry, "error": ErrorEvent}
                ),
                errors=(413, 503),
            ),
            RouteSpec(
                method="POST",
                path="/ingle/v1/pull/cancel",
                endpoint=self.cancel_pull,
                summary="Stop a download, and keep what arrived.",
                request=ModelRequest,
                response=PullCancelling,
                errors=(413,),
            ),
        ]

    def _loading_routes(self) -> list[RouteSpec]:
        return [
            RouteSpec(
                method="POST",
                path="/ingle/v1/load",
                endpoint=self.load,
                summary="Load a model, and answer once it is ready.",
                request=LoadRequest,
                response=LoadedModel,
                errors=(*LOAD_ERRORS, 413),
            ),
            RouteSpec(
                method="POST",
                path="/ingle/v1/unload",
                endpoint=self.unload,
                summary="Let running answers finish, then end the model's process.",
                request=UnloadRequest,
                body_optional=True,
                response=Unloaded,
                errors=(404, 413, 422),
            ),
        ]

    def _generation_routes(self) -> list[RouteSpec]:
        return [
            RouteSpec(
                method="POST",
                path="/ingle/v1/generations",
                endpoint=self.generate,
                summary="Begin a generation that belongs to the daemon.",
                parameters=(PRIVATE_HEADER,),
                request=GenerationRequest,
                response=GenerationStarted,
                status=202,
                errors=(403, 404, 409, 413, 422, 429),
            ),
            RouteSpec(
                method="GET",
                path="/ingle/v1/generations/{id}",
                endpoint=self.generation,
                summary="A generation as it is now.",
                response=GenerationStatus,
                errors=(404,),
            ),
            RouteSpec(
                method="GET",
                path="/ingle/v1/generations/{id}/events",
                endpoint=self.follow,
                summary="Follow a generation, or take it up again.",
                stream=GENERATION_EVENTS,
                parameters=FOLLOW_PARAMETERS,
                errors=(404,),
            ),
            RouteSpec(
                method="POST",
                path="/ingle/v1/generations/{id}/cancel",
                endpoint=self.cancel,
                summary="Stop a generation between two tokens.",
                response=GenerationStatus,
                errors=(404,),
            ),
        ]

    async def status(self, request: Request) -> Response:
        """`GET /ingle/v1/status`."""
        services = self._services
        memory = await asyncio.to_thread(services.memory)
        try:
            devices = await asyncio.wait_for(asyncio.to_thread(services.devices.read), _PATIENCE)
        except TimeoutError:
            devices = []  # a driver that hangs is not to hide the rest
        return JSONResponse(
            Status(
                version=self._version,
                pid=os.getpid(),
                uptime=time.monotonic() - services.started_at,
                socket=str(services.config.socket),
                address=services.address,
                default_model=self._default_model(),
                memory=memory,
                models=services.manager.loaded(),
                devices=devices,
            )
        )

    async def models(self, request: Request) -> Response:
        """`GET /ingle/v1/models`."""
        if query_flag(request, "compare"):
            await asyncio.to_thread(self._services.store.compare)
        return JSONResponse(await asyncio.to_thread(list_entries, self._services))

    async def fit(self, request: Request) -> Response:
        """`GET /ingle/v1/fit`."""
        reference = request.query_params.get("model", "")
        if not reference:
            raise InvalidBody("'model' must name a model.", param="model")
        asked = request.query_params.get("context", "")
        if asked and not (asked.isdecimal() and 0 < int(asked) <= 2**24):
            raise InvalidBody("'context' must be a number of tokens.", param="context")
        context = int(asked) if asked else None
        return JSONResponse(await asyncio.to_thread(report_fit, self._services, reference, context))

    async def model(self, request: Request) -> Response:
        """`GET /ingle/v1/models/{name}`."""
        services, reference = self._services, str(request.path_params["name"])
        model = await asyncio.to_thread(services.resolve, reference)
        return JSONResponse(await asyncio.to_thread(model_entry, services, model))

    async def add(self, request: Request) -> Response:
        """`POST /ingle/v1/models`."""
        services = self._services
        body = await read_json(request, self._add_request, services.config.max_body_bytes)
        if not Path(body.path).is_absolute():
            raise InvalidBody("'path' must be absolute.", param="path")
        maker = ModelCopier(services.store)
        model = await asyncio.to_thread(maker.add, Path(body.path), body.name)
        return JSONResponse(await asyncio.to_thread(model_entry, services, model))

    async def remove(self, request: Request) -> Response:
        """`DELETE /ingle/v1/models/{name}`."""
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

    async def pull(self, request: Request) -> Response:
        """`POST /ingle/v1/pull`."""
        body = await read_json(request, self._model_request, self._services.config.max_body_bytes)
        pull = self._services.pulls.join(body.model)
        return EventStream(partial(self._follow_pull, pull), style=self._style)

    async def cancel_pull(self, request: Request) -> Response:
        """`POST /ingle/v1/pull/cancel`."""
        body = await read_json(request, self._model_request, self._services.config.max_body_bytes)
        cancelled = await self._services.pulls.cancel(body.model)
        return JSONResponse(PullCancelling(self._services.canonical(body.model), cancelled))

    async def load(self, request: Request) -> Response:
        """`POST /ingle/v1/load`; a client that leaves no longer counts as waiting."""
        body = await read_json(request, self._load_request, self._services.config.max_body_bytes)
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
        loaded = await run_until_disconnect(request.receive, loading)
        return Response(status_code=499) if loaded is None else JSONResponse(loaded)

    async def unload(self, request: Request) -> Response:
        """`POST /ingle/v1/unload`; no body is the same as an empty object."""
        content = await read_body(request, self._services.config.max_body_bytes)
        body = parse(content or b"{}", self._unload_request)
        return JSONResponse(Unloaded(await self._services.manager.unload(body.model)))

    async def generate(self, request: Request) -> Response:
        """`POST /ingle/v1/generations`."""
        body = await read_json(
            request, self._generation_request, self._services.config.max_body_bytes
        )
        generation = await start_generation(self._services, body, request)
        return JSONResponse(GenerationStarted(generation.id, generation.model), 202)

    async def generation(self, request: Request) -> Response:
        """`GET /ingle/v1/generations/{id}`."""
        return JSONResponse(self._generation(request).status())

    async def follow(self, request: Request) -> Response:
        """`GET /ingle/v1/generations/{id}/events`."""
        generation = self._generation(request)
        after = _resume_point(request, generation)
        return EventStream(partial(_follow_generation, generation, after), style=self._style)

    async def cancel(self, request: Request) -> Response:
        """`POST /ingle/v1/generations/{id}/cancel`."""
        generation = self._generation(request)
        await generation.cancel()
        return JSONResponse(generation.status())

    async def events(self, request: Request) -> Response:
        """`GET /ingle/v1/events`."""
        reference = request.query_params.get("pages")
        model = None
        if reference is not None:
            model = await asyncio.to_thread(self._services.resolve, reference)
        return EventStream(partial(self._follow_hub, model), style=self._style)

    async def shutdown(self, request: Request) -> Response:
        """`POST /ingle/v1/shutdown`."""
        self._services.shutdown()
        return JSONResponse(ShuttingDownNotice(), 202)

    async def _follow_pull(self, pull: Pull, out: EventWriter) -> None:
        async for progress in pull.follow():
            if not pull.done:
                await out.send(encode_event(self._encoder.encode(progress), event="progress"))
        try:
            model = await pull.result()
            entry = await asyncio.to_thread(model_entry, self._services, model)
        except Exception as error:
            await out.send(self._error_frame(error))
        else:
            await out.send(encode_event(self._encoder.encode(entry), event="done"))

    async def _follow_hub(self, model: StoredModel | None, out: EventWriter) -> None:
        services = self._services
        listening = (
            services.hub.subscribe() if model is None else services.manager.pages.watching(model)
        )
        with listening as subscription:
            memory = await asyncio.to_thread(services.memory)
            first = GaugesEvent(memory, services.manager.loaded())
            await out.send(encode_event(self._encoder.encode(first), event="gauges"))
            async for event in subscription:
                await out.send(encode_event(event.data, event=event.name))

    def _error_frame(self, error: Exception) -> bytes:
        return encode_event(self._encoder.encode(describe(error).native()), event="error")

    def _generation(self, request: Request) -> Generation:
        return self._services.generations.get(request.path_params["id"])

    def _default_model(self) -> str:
        return self._services.canonical(self._services.config.default_model)


async def _follow_generation(generation: Generation, after: int, out: EventWriter) -> None:
    async for events in generation.follow(after):
        await out.send(b"".join([encode_event(e.data, event=e.name, id=e.number) for e in events]))


def _resume_point(request: Request, generation: Generation) -> int:
    """The number of the last event the client has seen.

    A browser repeats its address when it connects again, so what its header says is newer.
    """
    header = request.headers.get("last-event-id")
    given = [text for text in (header, request.query_params.get("after")) if text is not None]
    if not all(text.isascii() and text.isdigit() and len(text) <= 9 for text in given):
        raise InvalidBody("'after' must be the number of an event.", param="after")
    number = int(given[0]) if given else 0
    if number > generation.events:
        raise InvalidBody(
            f"There are {generation.events} events so far, and 'after' is {number}.", param="after"
        )
    return number
