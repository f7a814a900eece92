"""Engines under `/ingle/v1/engines`: list, install, decline, check, remove."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
from starlette.responses import Response

from ingle.backends.packages.engine_packages import SPEECH, EnginePackages, all_engine_packages

from ...client.engine_types import (
    EngineCheck,
    EngineEntries,
    EngineEntry,
    EngineRemoved,
    InstallProgress,
)
from ...client.generation_types import ErrorEvent
from ...engines.engine_installs import Installation
from ...errors import Conflict, NotFound
from ...http.bodies import NATIVE, encode_event
from ...http.route_access import ADMIN, READ
from ...http.route_spec import StreamSpec
from ...http.sse_writer import EventStream, EventWriter
from ..services_api import ServicesApi
from .native_api import NATIVE_STREAM, native_route
from .types import EngineRequest, InstallRequest

INSTALL_EVENTS = StreamSpec({"progress": InstallProgress, "done": EngineEntry, "error": ErrorEvent})


class EnginesApi(ServicesApi):
    """Routes about the engines of this machine."""

    @native_route("GET", "/ingle/v1/engines", access=READ)
    async def engines(self) -> EngineEntries:
        """All engines, and the one that this machine would profit from."""
        from ...engines.engine_list import list_engines

        services = self._services
        return await asyncio.to_thread(list_engines, services.engines, services.config)

    @native_route(
        "POST",
        "/ingle/v1/engines/install",
        access=ADMIN,
        stream=INSTALL_EVENTS,
        errors=(404, 413, 503),
    )
    async def install(self, body: InstallRequest) -> Response:
        """Install an engine, or join its installation."""
        packages = _find(body.engine)
        job = self._services.engines.join(packages.name, body.source)
        return EventStream(partial(self._follow, job, packages.name), style=NATIVE_STREAM)

    @native_route("POST", "/ingle/v1/engines/cancel", access=ADMIN, errors=(404, 413))
    async def cancel(self, body: EngineRequest) -> EngineEntries:
        """Stop an installation; what was downloaded is kept."""
        self._services.engines.cancel(_find(body.engine).name)
        return await self.engines()

    @native_route("POST", "/ingle/v1/engines/decline", access=ADMIN, errors=(404, 413))
    async def decline(self, body: EngineRequest) -> EngineEntries:
        """Stop offering an engine."""
        from ...engines.engine_list import decline_engine

        packages = _find(body.engine)
        await asyncio.to_thread(decline_engine, packages.name, self._services.config)
        self._services.engines.on_change()
        return await self.engines()

    @native_route(
        "POST", "/ingle/v1/engines/check", access=ADMIN, errors=(404, 413), cancellable=True
    )
    async def check(self, body: EngineRequest) -> EngineCheck:
        """Check an engine step by step, in a process that is confined as a worker is."""
        from ...engines.engine_check import check_engine

        packages, services = _find(body.engine), self._services
        found = await asyncio.to_thread(check_engine, packages, services.config.paths)
        if found.passed:
            await asyncio.to_thread(services.manager.retry_engine, packages.engine)
        return found

    @native_route("DELETE", "/ingle/v1/engines/{name}", access=ADMIN, errors=(404, 409))
    async def remove(self, name: str) -> EngineRemoved:
        """Remove an engine's packages."""
        services, packages = self._services, _find(name)
        store = services.engines.store
        folder = store.find(packages.name)
        if folder is None:
            raise NotFound(
                f"{packages.title} is not installed in ingle's data folder.",
                hint="`ingle engine list` shows what is.",
            )
        if services.engines.progress(packages.name) is not None:
            raise Conflict(
                f"{packages.title} is being installed.",
                hint="Wait until `ingle engine list` says that it is there.",
            )
        if packages.engine == SPEECH:
            speech, voice = services.manager.speech, services.manager.voice
            if speech.is_busy or voice.is_busy:
                what = "recognised" if speech.is_busy else "made"
                raise Conflict(f"Speech is being {what}.", hint="Try again when it is done.")
            speech.end()
            voice.end()
        users = [
            run.name
            for run in services.manager.loaded()
            if packages.engine.replace(".", "_") == run.engine.replace(".", "_")
        ]
        if users:
            raise Conflict(
                f"{packages.title} runs {' and '.join(users)}.",
                hint=f"Unload it first: `ingle unload {users[0]}`.",
            )
        freed = await asyncio.to_thread(store.remove, packages.name)
        services.engines.on_change()
        return EngineRemoved(packages.name, freed)

    async def _follow(self, job: Installation, name: str, out: EventWriter) -> None:
        async for progress in job.follow():
            if not job.done:
                await out.send(encode_event(msgspec.json.encode(progress), event="progress"))
        try:
            await job.result()
            listing = await self.engines()
        except Exception as error:
            await out.send(NATIVE.frame(error))
        else:
            entry = next(entry for entry in listing.engines if entry.name == name)
            await out.send(encode_event(msgspec.json.encode(entry), event="done"))


def _find(name: str) -> EnginePackages:
    found = all_engine_packages().get(name)
    if found is None:
        raise NotFound(
            f"There is no engine '{name}' to install.",
            hint=f"Choose one of {', '.join(all_engine_packages())}.",
        )
    return found
