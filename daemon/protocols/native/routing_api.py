"""`/ingle/v1/routing`: what may leave this machine, and what would become of a text."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest

from ...access.client_identity import identify_client
from ...client.routing_types import Explanation, RoutingProvider, RoutingRoute, RoutingState
from ...errors import Conflict, InvalidBody
from ...generations.generation_registry import new_generation_id
from ...http.error_format import NATIVE
from ...http.json_response import JSONResponse
from ...http.request_body import read_json
from ...http.route_access import INFERENCE, READ
from ...http.route_spec import route
from ...routing.policy.policy import Policy
from ...routing.policy.policy_file import PolicyError
from ...routing.routing_explanation import explain
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, RequestOrigin, is_private, routing_preference_of
from .requests import generation_request
from .routing_types import ExplainRequest


class RoutingApi:
    """Both routes."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @route("GET", "/ingle/v1/routing", access=READ, error_format=NATIVE, response=RoutingState)
    async def state(self, request: Request) -> Response:
        """What may leave this machine: the policy, the routes and the providers."""
        router, config = self._services.router, self._services.config
        trouble = ""
        try:
            policy = router.policy.current()
        except PolicyError as error:
            policy, trouble = Policy(), error.message
        providers = [
            RoutingProvider(
                name=provider.name,
                kind=provider.kind,
                own=provider.own,
                models=list(provider.models),
                ready=not (why := router.egress.trouble(provider)),
                trouble=why,
            )
            for provider in router.providers()
        ]
        routes = [
            RoutingRoute(
                name=route.name,
                local=self._services.canonical(target.local),
                remote="" if trouble else target.remote,
                prefer=route.prefer,
                escalate=list(route.escalate),
                redact=route.redact,
                description=route.description,
            )
            for route in policy.routes.values()
            for target in [router.target(route.name)]
        ]
        return JSONResponse(
            RoutingState(
                offline=config.offline,
                enabled=not trouble and any(provider.ready for provider in providers),
                policy=str(router.policy.path),
                policy_exists=router.policy.path.exists(),
                policy_trouble=trouble,
                providers=providers,
                routes=routes,
                classes={kind: cls.value for kind, cls in policy.classes.items()},
            )
        )

    @route(
        "POST",
        "/ingle/v1/routing/explain",
        access=INFERENCE,
        error_format=NATIVE,
        parameters=(PRIVATE_HEADER,),
        request=ExplainRequest,
        response=Explanation,
        errors=(409, 413, 422),
    )
    async def explain(self, request: Request) -> Response:
        """What is sensitive in a text or a generation, and where it would go."""
        body = await read_json(request, ExplainRequest)
        asked = _asked(body, request)
        try:
            self._services.router.policy.current()
        except PolicyError as error:
            raise Conflict(error.message, hint=error.hint, code="policy_is_wrong") from error
        name = self._services.routed_name(body.model or "auto")
        explanation = await explain(
            self._services.router,
            name,
            asked,
            preference=routing_preference_of(body.ingle or body),
            override=body.override is not None,
        )
        return JSONResponse(explanation)


def _asked(body: ExplainRequest, request: Request) -> GenerateRequest:
    """The request that is asked about; raises `InvalidBody`."""
    options = body.ingle or body
    private = is_private(options, request.headers)
    if body.text is None:
        origin = RequestOrigin(client=identify_client(request), private=private)
        return generation_request(body, origin)
    if body.messages is not None or body.prompt is not None:
        raise InvalidBody("Either 'text' or the body of a generation is explained.", param="text")
    return GenerateRequest(
        id=new_generation_id(),
        messages=[ChatMessage("user", body.text)],
        conversation=options.conversation or "",
        private=private,
    )
