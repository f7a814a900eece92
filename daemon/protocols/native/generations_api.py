"""Generations under `/ingle/v1/generations`, and token counts under `/ingle/v1/tokens`."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.errors import WrongTask
from ingle.backends.base.requests import TokenizeRequest
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ...client.generation_types import (
    ArgumentsEvent,
    DeltaEvent,
    ErrorEvent,
    FinishedEvent,
    GenerationStarted,
    LoadingEvent,
    PrefillEvent,
    PromptTokenCounts,
    RouteTaken,
    StartedEvent,
    ToolCallEvent,
)
from ...errors import Conflict, InvalidBody
from ...generations.generation import GenerationRoute, GenerationRun, GenerationStatus
from ...http.bodies import encode_event, translate
from ...http.route_access import INFERENCE
from ...http.route_spec import Parameter, StreamSpec
from ...http.sse_writer import EventStream, EventWriter
from ...routing.policy.policy import Verdict
from ...routing.policy.routing_plan import RoutingPlan
from ...routing.route_header import RouteRecord
from ...routing.routed_backend import open_route
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, origin_of, routing_preference_of
from ..request_options import SamplingOptions, resampled
from ..services_api import ServicesApi
from .native_api import NATIVE_STREAM, native_route
from .requests import conversation_request, generation_request
from .types import GenerationRequest, TokensRequest

GENERATION_EVENTS = StreamSpec(
    {
        "loading": LoadingEvent,
        "route": RouteTaken,
        "started": StartedEvent,
        "prefill": PrefillEvent,
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
    Parameter("Last-Event-ID", "header", int, "The same, from browsers; it takes precedence."),
)


class GenerationsApi(ServicesApi):
    """`/ingle/v1/generations` and `/ingle/v1/tokens`."""

    @native_route(
        "POST",
        "/ingle/v1/generations",
        access=INFERENCE,
        parameters=(PRIVATE_HEADER,),
        status=202,
        errors=(403, 404, 409, 413, 422, 429),
    )
    async def generate(self, request: Request, body: GenerationRequest) -> GenerationStarted:
        """Start a generation, which continues without a client unless it is `attached`."""
        generation = await _start_generation(self._services, body, request)
        if body.attached:
            generation.attach()
        return GenerationStarted(generation.id, generation.model)

    @native_route("GET", "/ingle/v1/generations/{id}", access=INFERENCE, errors=(404,))
    async def generation(self, request: Request) -> GenerationStatus:
        """The current state of a generation."""
        return self._generation(request).status()

    @native_route(
        "GET",
        "/ingle/v1/generations/{id}/events",
        access=INFERENCE,
        stream=GENERATION_EVENTS,
        parameters=FOLLOW_PARAMETERS,
        errors=(404,),
    )
    async def follow(self, request: Request) -> Response:
        """Follow a generation, from its start or from an event on."""
        generation = self._generation(request)
        after = _resume_point(request, generation)
        return EventStream(partial(_follow_generation, generation, after), style=NATIVE_STREAM)

    @native_route("POST", "/ingle/v1/generations/{id}/cancel", access=INFERENCE, errors=(404,))
    async def cancel(self, request: Request) -> GenerationStatus:
        """Stop a generation between two tokens."""
        generation = self._generation(request)
        await generation.cancel()
        return generation.status()

    @native_route(
        "POST",
        "/ingle/v1/tokens",
        access=INFERENCE,
        errors=(404, 409, 413, 422, 429, 500, 503, 507),
        cancellable=True,
    )
    async def count(self, request: Request, body: TokensRequest) -> PromptTokenCounts:
        """How many tokens a conversation takes, message by message."""
        services = self._services
        reference = body.model or services.config.default_model
        asked = TokenizeRequest(
            id=f"tokens-{secrets.token_hex(12)}",
            generate=await translate(request, partial(conversation_request, body)),
            divided=True,
        )
        model = await asyncio.to_thread(_generating, services, reference)
        run = services.manager.find(model)
        if not body.load and (run is None or not run.accepts):
            raise Conflict(
                f"The model '{model.name}' is not loaded.",
                hint='Load it first, or ask with "load": true.',
                code="model_not_loaded",
            )
        async with services.manager.lease(reference) as lease:
            found = await lease.backend.tokenize(asked)
            counts, rest = found.message_tokens, found.rest_tokens
            return PromptTokenCounts(sum(counts) + rest, counts, rest, lease.context)

    def _generation(self, request: Request) -> GenerationRun:
        return self._services.generations.get(request.path_params["id"])


async def _follow_generation(generation: GenerationRun, after: int, out: EventWriter) -> None:
    with generation.followed():
        async for events in generation.log.follow(after):
            frames = [encode_event(e.data, event=e.name, id=e.number) for e in events]
            await out.send(b"".join(frames))


def _resume_point(request: Request, generation: GenerationRun) -> int:
    """Return the number of the last event that the client has received; raises `InvalidBody`.

    A browser repeats its address when it connects again, so its header is newer.
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


async def _start_generation(
    services: Services, body: GenerationRequest, request: Request
) -> GenerationRun:
    """Start the generation that a body describes, here or where the policy routes it.

    Raises `InvalidBody`, `WrongTask`, `RouteRefused`, and errors of finding the model.
    """
    reference = body.model or services.config.default_model
    options = body.ingle or body
    # The request itself is validated before the model is looked up.
    origin = origin_of(request, options)
    asked = await translate(request, partial(generation_request, body, origin))
    name, preference = services.routed_name(reference), routing_preference_of(options)
    route = None
    if services.router.concerns(name, preference):
        plan = await services.router.plan(name, [asked], preference=preference)
        route = _route(services, plan, body.sampling)
        if plan.verdict is not Verdict.LOCAL:
            asked = resampled(body.sampling, asked, {})
            return services.generations.start(reference, plan.target.remote, asked, route=route)
        reference = plan.target.local
    else:
        await services.router.taint_private([asked])
    model = await asyncio.to_thread(_generating, services, reference)
    return services.generations.start(
        reference,
        model.name,
        resampled(body.sampling, asked, model.sampling),
        enter=partial(services.manager.enter, model, asked.priority),
        route=route,
    )


def _generating(services: Services, reference: str) -> StoredModel:
    model = services.resolve(reference)
    if model.task is not ModelTask.GENERATE:
        raise WrongTask(model.task, ModelTask.GENERATE, name=model.name)
    return model


def _route(services: Services, plan: RoutingPlan, options: SamplingOptions) -> GenerationRoute:
    record = RouteRecord()
    resample = partial(resampled, options)
    return GenerationRoute(
        record,
        lambda open_local: open_route(
            services.router, plan, record, open_local=open_local, resample=resample
        ),
    )
