"""`/ingle/v1/watch`: requests of all clients, for the owner."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ...client.watch_types import WatchedPrompt, WatchedRequest
from ...http.bodies import encode_event
from ...http.route_access import ADMIN
from ...http.route_spec import StreamSpec
from ...http.sse_writer import EventStream, EventWriter
from ..services_api import ServicesApi
from .native_api import NATIVE_STREAM, native_route


class WatchApi(ServicesApi):
    """Routes that show requests while a client follows them."""

    @native_route(
        "GET", "/ingle/v1/watch", access=ADMIN, stream=StreamSpec({"request": WatchedRequest})
    )
    async def watch(self, request: Request) -> Response:
        """Requests that are not private, as they end."""
        return EventStream(self._follow, style=NATIVE_STREAM)

    @native_route("GET", "/ingle/v1/watch/{id}", access=ADMIN, errors=(404,))
    async def prompt(self, request: Request) -> WatchedPrompt:
        """The prompt of a request that was watched, as the model's template renders it."""
        watched: str = request.path_params["id"]
        return WatchedPrompt(id=watched, text=self._services.generations.watch.prompt(watched))

    async def _follow(self, out: EventWriter) -> None:
        with self._services.generations.watch.watching() as subscription:
            out.write(b": watching\n\n")
            async for event in subscription:
                await out.send(encode_event(event.data, event=event.name))
