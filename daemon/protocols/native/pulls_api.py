"""Downloads of models under `/ingle/v1/pull`."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...client.model_types import ModelEntry, PullCancelling, PullProgress
from ...generations.generation import (
    ErrorEvent,
)
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import MODELS
from ...http.route_spec import StreamSpec, route
from ...http.sse_writer import (
    EventStream,
    EventWriter,
    StreamStyle,
    encode_event,
)
from ...library.pulls import Pull
from ...services import Services
from .error_frame import error_frame
from .model_entries import model_entry
from .types import ModelRequest


class PullsApi:
    """`/ingle/v1/pull` and `/ingle/v1/pull/cancel`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._encoder = msgspec.json.Encoder()
        self._style = StreamStyle(on_error=error_frame)

    @route(
        "POST",
        "/ingle/v1/pull",
        access=MODELS,
        error_format=NATIVE,
        request=ModelRequest,
        stream=StreamSpec({"progress": PullProgress, "done": ModelEntry, "error": ErrorEvent}),
        errors=(413, 503),
    )
    async def pull(self, request: Request) -> Response:
        """Download a model, or join its download."""
        body = await read_json(request, ModelRequest)
        pull = self._services.pulls.join(body.model)
        return EventStream(partial(self._follow_pull, pull), style=self._style)

    @route(
        "POST",
        "/ingle/v1/pull/cancel",
        access=MODELS,
        error_format=NATIVE,
        request=ModelRequest,
        response=PullCancelling,
        errors=(413,),
    )
    async def cancel_pull(self, request: Request) -> Response:
        """Stop a download, and keep what arrived."""
        body = await read_json(request, ModelRequest)
        cancelled = await self._services.pulls.cancel(body.model)
        return JSONResponse(PullCancelling(self._services.canonical(body.model), cancelled))

    async def _follow_pull(self, pull: Pull, out: EventWriter) -> None:
        async for progress in pull.follow():
            if not pull.done:
                await out.send(encode_event(self._encoder.encode(progress), event="progress"))
        try:
            model = await pull.result()
            entry = await asyncio.to_thread(model_entry, self._services, model)
        except Exception as error:
            await out.send(error_frame(error))
        else:
            await out.send(encode_event(self._encoder.encode(entry), event="done"))
