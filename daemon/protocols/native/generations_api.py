"""Generations under `/ingle/v1/generations`: start, follow, resume, cancel."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from ...client.generation_types import GenerationStarted, RouteTaken
from ...errors import InvalidBody
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
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import INFERENCE
from ...http.route_spec import Parameter, StreamSpec, route
from ...http.sse_writer import (
    EventStream,
    EventWriter,
    StreamStyle,
    encode_event,
)
from ...services import Services
from ..ingle_options import PRIVATE_HEADER
from .error_frame import error_frame
from .start_generation import start_generation
from .types import GenerationRequest

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
FOLLOW_PARAMETERS = (
    Parameter("after", "query", int, "Leave out the events up to this number."),
    Parameter("Last-Event-ID", "header", int, "The same, as browsers say it; it counts first."),
)


class GenerationsApi:
    """`/ingle/v1/generations`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._style = StreamStyle(on_error=error_frame)

    @route(
        "POST",
        "/ingle/v1/generations",
        access=INFERENCE,
        error_format=NATIVE,
        parameters=(PRIVATE_HEADER,),
        request=GenerationRequest,
        response=GenerationStarted,
        status=202,
        errors=(403, 404, 409, 413, 422, 429),
    )
    async def generate(self, request: Request) -> Response:
        """Begin a generation that belongs to the daemon."""
        body = await read_json(request, GenerationRequest)
        generation = await start_generation(self._services, body, request)
        return JSONResponse(GenerationStarted(generation.id, generation.model), 202)

    @route(
        "GET",
        "/ingle/v1/generations/{id}",
        access=INFERENCE,
        error_format=NATIVE,
        response=GenerationStatus,
        errors=(404,),
    )
    async def generation(self, request: Request) -> Response:
        """A generation as it is now."""
        return JSONResponse(self._generation(request).status())

    @route(
        "GET",
        "/ingle/v1/generations/{id}/events",
        access=INFERENCE,
        error_format=NATIVE,
        stream=GENERATION_EVENTS,
        parameters=FOLLOW_PARAMETERS,
        errors=(404,),
    )
    async def follow(self, request: Request) -> Response:
        """Follow a generation, or take it up again."""
        generation = self._generation(request)
        after = _resume_point(request, generation)
        return EventStream(partial(_follow_generation, generation, after), style=self._style)

    @route(
        "POST",
        "/ingle/v1/generations/{id}/cancel",
        access=INFERENCE,
        error_format=NATIVE,
        response=GenerationStatus,
        errors=(404,),
    )
    async def cancel(self, request: Request) -> Response:
        """Stop a generation between two tokens."""
        generation = self._generation(request)
        await generation.cancel()
        return JSONResponse(generation.status())

    def _generation(self, request: Request) -> Generation:
        return self._services.generations.get(request.path_params["id"])


async def _follow_generation(generation: Generation, after: int, out: EventWriter) -> None:
    async for events in generation.log.follow(after):
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
    if number > len(generation.log):
        raise InvalidBody(
            f"There are {len(generation.log)} events so far, and 'after' is {number}.",
            param="after",
        )
    return number
