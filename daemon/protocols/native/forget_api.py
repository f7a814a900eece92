"""`GET /ingle/v1/kept` and `POST /ingle/v1/forget`: stored data, and its erasure."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from ...http.bodies import JSONResponse, read_json
from ...http.route_access import ADMIN
from ...retention.data_inventory import DATA_INVENTORY, measure
from ...retention.forget_request import ForgetRequest, Forgotten, KeptInMemory, KeptPlaces
from ...retention.forgetter import Forgetter
from ...services import Services
from .native_api import NativeApi, native_route


class ForgetApi(NativeApi):
    """Routes about stored data."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._forgetter = Forgetter(
            services.config,
            services.manager,
            services.generations,
            services.batches,
            services.responses,
            services.router,
        )

    @native_route("GET", "/ingle/v1/kept", access=ADMIN, response=KeptPlaces)
    async def kept(self, request: Request) -> Response:
        """All stored data: where, how much, and for how long."""
        services = self._services
        places = await asyncio.to_thread(
            lambda: [measure(place, services.config) for place in DATA_INVENTORY]
        )
        answers = services.generations.forget(lambda _id, _ended: True, dry_run=True)
        models = [model.name for model in services.manager.models()]
        return JSONResponse(KeptPlaces(places, KeptInMemory(answers, models)))

    @native_route(
        "POST",
        "/ingle/v1/forget",
        access=ADMIN,
        request=ForgetRequest,
        response=Forgotten,
        errors=(507,),
    )
    async def forget(self, request: Request) -> Response:
        """Erase stored data by id, by time, or all; not the chats of the terminal, which the
        command erases.
        """
        body = await read_json(request, ForgetRequest)
        return JSONResponse(await self._forgetter.forget(body))
