"""How a generation begins: on a model here, or on the way that the policy decides."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from msgspec import structs
from starlette.requests import Request

from ingle.backends.base.errors import WrongTask
from ingle.backends.base.requests import GenerateRequest
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

from ...access.client_identity import identify_client
from ...generations.generation import Generation, GenerationRoute
from ...routing.policy.policy import Verdict
from ...routing.policy.routing_plan import RoutingPlan
from ...routing.route_header import RouteRecord
from ...routing.routed_backend import open_route
from ...services import Services
from ..ingle_options import RequestOrigin, is_private, routing_preference_of
from ..sampling_options import SamplingOptions, merge_sampling
from .requests import generation_request
from .types import GenerationRequest


async def start_generation(
    services: Services, body: GenerationRequest, request: Request
) -> Generation:
    """Begin what a body asks for; raises what is wrong with it, and `RouteRefused`."""
    reference = body.model or services.config.default_model
    private = is_private(body.ingle or body, request.headers)
    origin = RequestOrigin(client=identify_client(request), private=private)
    # Everything the request alone decides is checked before the model is looked up.
    asked = generation_request(body, origin)
    name, preference = services.routed_name(reference), routing_preference_of(body.ingle or body)
    way = None
    if services.router.concerns(name, preference):
        plan = await services.router.plan(name, [asked], preference=preference)
        way = _way(services, plan, body.sampling)
        if plan.verdict is not Verdict.LOCAL:
            asked = _sampled(asked, body.sampling, {})
            return services.generations.start(reference, plan.target.remote, asked, route=way)
        reference = plan.target.local
    else:
        await services.router.taint_private([asked])
    model = await asyncio.to_thread(_generating, services, reference)
    return services.generations.start(
        reference,
        model.name,
        _sampled(asked, body.sampling, model.sampling),
        enter=partial(services.manager.enter, model, asked.priority),
        route=way,
    )


def _generating(services: Services, reference: str) -> StoredModel:
    model = services.resolve(reference)
    if model.task is not ModelTask.GENERATE:
        raise WrongTask(model.task, ModelTask.GENERATE, name=model.name)
    return model


def _way(services: Services, plan: RoutingPlan, options: SamplingOptions) -> GenerationRoute:
    note = RouteRecord()

    def resample(request: GenerateRequest, recommended: Mapping[str, float]) -> GenerateRequest:
        return _sampled(request, options, recommended)

    return GenerationRoute(
        note,
        lambda open_local: open_route(
            services.router, plan, note, open_local=open_local, resample=resample
        ),
    )


def _sampled(
    request: GenerateRequest, options: SamplingOptions, recommended: Mapping[str, float]
) -> GenerateRequest:
    return structs.replace(request, sampling=merge_sampling(options, recommended))
