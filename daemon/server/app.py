"""The ASGI application: middleware, routes, and error responses in each route's format."""

from __future__ import annotations

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from ingle.backends.base.errors import BackendError
from ingle.models.errors import ModelError

from ..access.auth import RequestGate
from ..error_status import describe
from ..errors import MethodNotAllowed, NotFound, Problem, RequestError
from ..http.access_log import ROUTE, AccessLog
from ..http.bodies import ClientLeft, error_response
from ..http.request_stack import holding
from ..http.route_spec import RouteIndex, RouteSpec
from ..routing.route_header import RouteHeader
from ..services import Services
from .route_table import route_table


def create_app(services: Services) -> Starlette:
    """Return the ASGI application that serves the HTTP API of one daemon."""
    routes = route_table(services)
    index = RouteIndex(routes)
    answers = ErrorResponses(index)
    app = Starlette(
        routes=[_route(spec) for spec in routes],
        middleware=[
            *([Middleware(AccessLog)] if services.config.access_log else []),
            Middleware(RouteHeader),
            Middleware(RequestGate, routes=index, config=services.config),
        ],
        exception_handlers={
            RequestError: answers.answer,
            ModelError: answers.answer,
            BackendError: answers.answer,
            HTTPException: answers.answer_http,
            ClientLeft: answers.answer_client_left,
            Exception: answers.answer,
        },
    )
    # A redirect would turn a POST with a trailing slash into a GET in some clients.
    app.router.redirect_slashes = False
    app.state.max_body_bytes = services.config.max_body_bytes
    app.state.ignored_fields = services.ignored_fields
    return app


class DaemonRoute(Route):
    """A route that stores its path in the ASGI scope, for the access log.

    What a request holds is released with its end.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See `Route.matches`."""
        match, child = super().matches(scope)
        if match is not Match.NONE:
            child[ROUTE] = self.path
        return match, child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `Route.handle`."""
        async with holding(scope):
            await super().handle(scope, receive, send)


def _route(spec: RouteSpec) -> BaseRoute:
    if spec.socket_endpoint is not None:
        return WebSocketRoute(spec.path, spec.socket_endpoint)
    route = DaemonRoute(spec.path, spec.endpoint, methods=[spec.method])
    if spec.stream is not None and route.methods is not None:
        # Starlette adds HEAD to every GET; a HEAD of a stream would never end.
        route.methods.discard("HEAD")
    return route


class ErrorResponses:
    """Exception handlers that answer in the error format of the request's route."""

    def __init__(self, routes: RouteIndex) -> None:
        self._routes = routes

    async def answer(self, request: Request, error: Exception) -> Response:
        """Return the response for an error of a handler."""
        return self._response(request, describe(error))

    async def answer_client_left(self, request: Request, error: Exception) -> Response:
        """Return a response that is not sent, because the client has closed the connection."""
        return Response(status_code=499)

    async def answer_http(self, request: Request, error: Exception) -> Response:
        """Return the response for a path or method that the router does not know."""
        assert isinstance(error, HTTPException)
        if error.status_code == HTTPStatus.NOT_FOUND:
            problem = describe(NotFound("There is nothing at this path.", hint=_base_urls(request)))
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            problem = describe(
                MethodNotAllowed(
                    f"This path does not support {request.method[:20]}.",
                    hint="See /openapi.json.",
                    headers={"allow": ", ".join(_methods(request))},
                )
            )
        else:
            problem = Problem(
                status=error.status_code, code="invalid_request", message=error.detail
            )
        return self._response(request, problem)

    def _response(self, request: Request, problem: Problem) -> Response:
        return error_response(
            problem, self._routes.error_format(request.method, request.scope["path"])
        )


def _base_urls(request: Request) -> str:
    """Return what the base URL of a client should be."""
    address = str(request.base_url).rstrip("/")
    return (
        f"The base URL is {address}/v1 for OpenAI's API, and {address} for those of Anthropic, "
        "Ollama, llama.cpp and LM Studio; /openapi.json lists all paths."
    )


def _methods(request: Request) -> list[str]:
    """Return the methods that the request's path accepts; each is a route."""
    app: Starlette = request.app
    routes = [route for route in app.routes if isinstance(route, Route)]
    path = next(r.path for r in routes if r.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for r in routes if r.path == path for method in r.methods or ()})
