"""`GET /ingle/v1/kept` and `POST /ingle/v1/forget`: stored data, and its erasure."""

from __future__ import annotations

import asyncio

from ...http.route_access import ADMIN
from ...retention.data_inventory import DATA_INVENTORY, measure
from ...retention.forget_request import ForgetRequest, Forgotten, KeptInMemory, KeptPlaces
from ...retention.forgetter import Forgetter
from ...services import Services
from ..services_api import ServicesApi
from .native_api import native_route


class ForgetApi(ServicesApi):
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
            services.documents,
            services.slots,
        )

    @native_route("GET", "/ingle/v1/kept", access=ADMIN)
    async def kept(self) -> KeptPlaces:
        """All stored data: where, how much, and for how long."""
        services = self._services
        places = await asyncio.to_thread(
            lambda: [measure(place, services.config) for place in DATA_INVENTORY]
        )
        answers = services.generations.forget(lambda _id, _ended: True, dry_run=True)
        models = [model.name for model in services.manager.models()]
        return KeptPlaces(places, KeptInMemory(answers, models))

    @native_route("POST", "/ingle/v1/forget", access=ADMIN, errors=(507,))
    async def forget(self, body: ForgetRequest) -> Forgotten:
        """Erase stored data by id, by time, or all; not the chats of the terminal, which the
        command erases.
        """
        return await self._forgetter.forget(body)
