"""`GET /ingle/v1/doctor`: this machine, and what is wrong with ingle on it."""

from __future__ import annotations

import asyncio
import os

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.hardware.read_software import installed_version

from ...doctor.diagnose import DoctorReport, diagnose
from ...doctor.system_state import DaemonState
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.route_access import READ
from ...http.route_spec import route
from ...services import Services


class DoctorApi:
    """The routes about the machine rather than about models."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route("GET", "/ingle/v1/doctor", access=READ, error_format=NATIVE, response=DoctorReport)
    async def doctor(self, request: Request) -> Response:
        """What this machine has, what is wrong with it, and how to mend that."""
        return JSONResponse(await asyncio.to_thread(self._examine))

    def _examine(self) -> DoctorReport:
        # Imported here: the daemon starts without what only this needs.
        from ...doctor.read_system_state import read_system_state

        services = self._services
        config = services.config
        daemon = DaemonState(
            state="running",
            version=installed_version("ingle"),
            pid=os.getpid(),
            address=services.address or "",
            socket=str(config.socket),
            socket_moved=config.paths.socket_moved and config.socket == config.paths.socket,
        )
        return diagnose(read_system_state(config, daemon))
