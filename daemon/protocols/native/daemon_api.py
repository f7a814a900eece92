"""State and events of the daemon under `/ingle/v1/`, and its shutdown."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from importlib.metadata import version

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.metadata.stored_model import StoredModel

from ...client.daemon_types import GaugesEvent, ShuttingDownNotice, Status
from ...client.model_types import LoadedModel, PullProgress
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.route_access import ADMIN, READ
from ...http.route_spec import Parameter, StreamSpec, route
from ...http.sse_writer import (
    EventStream,
    EventWriter,
    StreamStyle,
    encode_event,
)
from ...model_process.kv_map_watch import PagesEvent
from ...services import Services
from .error_frame import error_frame

HUB_EVENTS = StreamSpec(
    {"gauges": GaugesEvent, "model": LoadedModel, "pull": PullProgress, "pages": PagesEvent}
)
PAGES_PARAMETER = Parameter(
    "pages", "query", str, "Tell of the pages of this model's KV cache, too."
)
DEVICES_TIMEOUT = 2.0
"""Seconds to wait for the readings of all devices."""


class DaemonApi:
    """`/ingle/v1/status`, `/ingle/v1/events` and `/ingle/v1/shutdown`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._version = version("ingle")
        self._encoder = msgspec.json.Encoder()
        self._style = StreamStyle(on_error=error_frame)

    @route("GET", "/ingle/v1/status", access=READ, error_format=NATIVE, response=Status)
    async def status(self, request: Request) -> Response:
        """The daemon, its memory, and the loaded models."""
        services = self._services
        memory = await asyncio.to_thread(services.memory)
        try:
            devices = await asyncio.wait_for(
                asyncio.to_thread(services.devices.read), DEVICES_TIMEOUT
            )
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

    @route(
        "GET",
        "/ingle/v1/events",
        access=READ,
        error_format=NATIVE,
        stream=HUB_EVENTS,
        parameters=(PAGES_PARAMETER,),
        errors=(404, 422),
    )
    async def events(self, request: Request) -> Response:
        """Everything that moves."""
        reference = request.query_params.get("pages")
        model = None
        if reference is not None:
            model = await asyncio.to_thread(self._services.resolve, reference)
        return EventStream(partial(self._follow_hub, model), style=self._style)

    @route(
        "POST",
        "/ingle/v1/shutdown",
        access=ADMIN,
        error_format=NATIVE,
        response=ShuttingDownNotice,
        status=202,
    )
    async def shutdown(self, request: Request) -> Response:
        """End the daemon once running answers are finished."""
        self._services.shutdown()
        return JSONResponse(ShuttingDownNotice(), 202)

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

    def _default_model(self) -> str:
        return self._services.canonical(self._services.config.default_model)
