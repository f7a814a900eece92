"""The daemon itself under `/ingle/v1/`: status, events, diagnosis, shutdown."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ingle.models.metadata.stored_model import StoredModel

from ...client.daemon_types import GaugesEvent, PagesEvent, ShuttingDownNotice, Status
from ...client.engine_types import InstallProgress
from ...client.model_types import DownloadProgress, LoadedModel
from ...doctor.system_state import DaemonState, DoctorReport
from ...http.bodies import encode_event
from ...http.route_access import ADMIN, READ
from ...http.route_spec import Parameter, StreamSpec
from ...http.sse_writer import EventStream, EventWriter
from ...installed_version import installed_version
from ..services_api import ServicesApi
from .native_api import NATIVE_STREAM, native_route

HUB_EVENTS = StreamSpec(
    {
        "gauges": GaugesEvent,
        "model": LoadedModel,
        "pull": DownloadProgress,
        "engine": InstallProgress,
        "pages": PagesEvent,
    }
)
PAGES_PARAMETER = Parameter("pages", "query", str, "Also send the KV cache pages of this model.")
DEVICES_TIMEOUT = 2.0
"""Seconds to wait for the readings of all devices."""


class DaemonApi(ServicesApi):
    """Routes about the daemon and its machine."""

    @native_route("GET", "/ingle/v1/status", access=READ)
    async def status(self) -> Status:
        """The daemon, its memory, and the loaded models."""
        services = self._services
        memory = await asyncio.to_thread(services.memory)
        try:
            devices = await asyncio.wait_for(
                asyncio.to_thread(services.devices.read), DEVICES_TIMEOUT
            )
        except TimeoutError:
            devices = []  # a driver that hangs must not hide the rest
        return Status(
            version=installed_version(),
            pid=os.getpid(),
            uptime=time.monotonic() - services.started_at,
            socket=str(services.config.socket),
            address=services.address,
            default_model=services.canonical(services.config.default_model),
            memory=memory,
            models=services.manager.loaded(),
            devices=devices,
            costs=await asyncio.to_thread(services.costs),
            pulls=msgspec.convert(
                services.pulls.progress(), list[DownloadProgress], from_attributes=True
            ),
        )

    @native_route(
        "GET",
        "/ingle/v1/events",
        access=READ,
        stream=HUB_EVENTS,
        parameters=(PAGES_PARAMETER,),
        errors=(404, 422),
    )
    async def events(self, request: Request) -> Response:
        """Changes of gauges, models, downloads, installations and KV pages, as they happen."""
        reference = request.query_params.get("pages")
        model = None
        if reference is not None:
            model = await asyncio.to_thread(self._services.resolve, reference)
        return EventStream(partial(self._follow_hub, model), style=NATIVE_STREAM)

    @native_route("GET", "/ingle/v1/doctor", access=READ)
    async def doctor(self) -> DoctorReport:
        """The state of this machine, problems found in it, and how to fix them."""
        return await asyncio.to_thread(self._diagnose)

    @native_route("POST", "/ingle/v1/shutdown", access=ADMIN, status=202)
    async def shutdown(self) -> ShuttingDownNotice:
        """End the daemon once running answers are finished."""
        self._services.shutdown()
        return ShuttingDownNotice()

    async def _follow_hub(self, model: StoredModel | None, out: EventWriter) -> None:
        services = self._services
        listening = (
            services.hub.subscribe() if model is None else services.manager.pages.watching(model)
        )
        with listening as subscription:
            memory = await asyncio.to_thread(services.memory)
            first = GaugesEvent(memory, services.manager.loaded())
            await out.send(encode_event(msgspec.json.encode(first), event="gauges"))
            async for event in subscription:
                await out.send(encode_event(event.data, event=event.name))

    def _diagnose(self) -> DoctorReport:
        # Imported here: the daemon starts without what only this needs.
        from ...doctor.diagnose import diagnose
        from ...doctor.read_system_state import read_system_state

        services = self._services
        config = services.config
        daemon = DaemonState(
            state="running",
            version=installed_version(),
            pid=os.getpid(),
            address=services.address or "",
            socket=str(config.socket),
            socket_moved=config.paths.socket_moved and config.socket == config.paths.socket,
        )
        return diagnose(read_system_state(config, daemon))
