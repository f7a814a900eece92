"""The native API under `/ingle/v1/`: everything the terminal chat and the commands need."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from importlib.metadata import version

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.errors import WrongTask
from ingle.models.progress import PullProgress
from ingle.models.stored_model import StoredModel
from ingle.models.task import ModelTask, Pooling

from ...errors import InvalidBody, describe
from ...generations import (
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
from ...http.body import parse, read_body, read_json
from ...http.client_identity import identify_client
from ...http.responses import JSON
from ...http.route_spec import Parameter, RouteSpec, Stream
from ...http.sse import EventStream, EventWriter, StreamStyle, encode_event, run_until_disconnect
from ...loaded_model import LoadedModel
from ...page_watch import PagesEvent
from ...preparation import LoadOptions
from ...pulls import Pull
from ...removal import remove_model
from ...sampling import merge_sampling
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, is_private
from ..origin import Origin
from .entries import list_entries, model_entry
from .requests import generation_request
from .types import (
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
GENERATION_EVENTS = Stream(
    {
        "loading": LoadingEvent,
        "started": StartedEvent,
        "reasoning": DeltaEvent,
        "delta": DeltaEvent,
        "tool_call": ToolCallEvent,
        "arguments": ArgumentsEvent,
        "finished": FinishedEvent,
        "error": ErrorEvent,
    }
)
HUB_EVENTS = Stream(
    {"gauges": GaugesEvent, "model": LoadedModel, "pull": PullProgress, "pages": PagesEvent}
)
PAGES_PARAMETER = Parameter(
    "pages", "query", str, "Tell of the pages of this model's KV cache, too."
)
FOLLOW_PARAMETERS = (
    Parameter("after", "query", int, "Leave out the events up to this number."),
    Parameter("Last-Event-ID", "header", int, "The same, as browsers say it; it counts first."),
)


class NativeApi:
    """The routes under `/ingle/v1/`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._version = version("ingle")
        self._encoder = msgspec.json.Encoder()
        self._style = StreamStyle(on_error=self._error_frame)
        self._model_request = msgspec.json.Decoder(ModelRequest)
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
                summary="Unload a model and remove its files.",
                response=Removed,
                errors=(404, 409, 422),
            ),
            RouteSpec(
                method="POST",
                path="/ingle/v1/pull",
                endpoint=self.pull,
                summary="Download a model, or join its download.",
                request=ModelRequest,
                stream=Stream({"progress": PullProgress, "done": ModelEntry, "error": ErrorEvent}),
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
                errors=(404, 413, 422, 429),
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
        return JSON(
            Status(
                version=self._version,
                pid=os.getpid(),
                uptime=time.monotonic() - services.started_at,
                socket=str(services.config.socket),
                address=services.address,
                default_model=self._default_model(),
                memory=services.memory(),
                models=services.manager.loaded(),
            )
        )

    async def models(self, request: Request) -> Response:
        """`GET /ingle/v1/models`."""
        return JSON(await asyncio.to_thread(list_entries, self._services))

    async def model(self, request: Request) -> Response:
        """`GET /ingle/v1/models/{name}`."""
        services, reference = self._services, str(request.path_params["name"])
        model = await asyncio.to_thread(services.resolve, reference)
        return JSON(model_entry(services, model))

    async def remove(self, request: Request) -> Response:
        """`DELETE /ingle/v1/models/{name}`."""
        reference: str = request.path_params["name"]
        return JSON(Removed(*await remove_model(self._services, reference)))

    async def pull(self, request: Request) -> Response:
        """`POST /ingle/v1/pull`."""
        body = await read_json(request, self._model_request, self._services.config.max_body_bytes)
        pull = self._services.pulls.join(body.model)
        return EventStream(partial(self._follow_pull, pull), style=self._style)

    async def cancel_pull(self, request: Request) -> Response:
        """`POST /ingle/v1/pull/cancel`."""
        body = await read_json(request, self._model_request, self._services.config.max_body_bytes)
        cancelled = await self._services.pulls.cancel(body.model)
        return JSON(PullCancelling(self._services.canonical(body.model), cancelled))

    async def load(self, request: Request) -> Response:
        """`POST /ingle/v1/load`; a client that leaves no longer counts as waiting."""
        body = await read_json(request, self._load_request, self._services.config.max_body_bytes)
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
        )
        loaded = await run_until_disconnect(request.receive, loading)
        return Response(status_code=499) if loaded is None else JSON(loaded)

    async def unload(self, request: Request) -> Response:
        """`POST /ingle/v1/unload`; no body is the same as an empty object."""
        content = await read_body(request, self._services.config.max_body_bytes)
        body = parse(content or b"{}", self._unload_request)
        return JSON(Unloaded(await self._services.manager.unload(body.model)))

    async def generate(self, request: Request) -> Response:
        """`POST /ingle/v1/generations`."""
        body = await read_json(
            request, self._generation_request, self._services.config.max_body_bytes
        )
        reference = body.model or self._services.config.default_model
        private = is_private(body.ingle or body, request.headers)
        origin = Origin(client=identify_client(request), private=private)
        # Everything the request alone decides is checked before the model is looked up.
        asked = generation_request(body, origin)
        model = await asyncio.to_thread(self._services.resolve, reference)
        if model.task is not ModelTask.GENERATE:
            raise WrongTask(model.task, ModelTask.GENERATE, name=model.name)
        sampling = merge_sampling(body.sampling, model.sampling)
        generation = self._services.generations.start(
            reference,
            model.name,
            msgspec.structs.replace(asked, sampling=sampling),
            enter=partial(self._services.manager.enter, model, asked.priority),
        )
        return JSON(GenerationStarted(generation.id, generation.model), 202)

    async def generation(self, request: Request) -> Response:
        """`GET /ingle/v1/generations/{id}`."""
        return JSON(self._generation(request).status())

    async def follow(self, request: Request) -> Response:
        """`GET /ingle/v1/generations/{id}/events`."""
        generation = self._generation(request)
        after = _resume_point(request, generation)
        return EventStream(partial(_follow_generation, generation, after), style=self._style)

    async def cancel(self, request: Request) -> Response:
        """`POST /ingle/v1/generations/{id}/cancel`."""
        generation = self._generation(request)
        await generation.cancel()
        return JSON(generation.status())

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
        return JSON(ShuttingDownNotice(), 202)

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
            first = GaugesEvent(self._services.memory(), self._services.manager.loaded())
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
