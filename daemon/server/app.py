"""The ASGI application: the gate in front, the routes behind it, errors in each path's shape."""

from __future__ import annotations

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from ingle.backends.base.errors import BackendError
from ingle.models.errors import ModelError

from ..access.api_keys import KeyRing, KeyStore, Rate
from ..access.auth import RequestGate
from ..access.rate_limit import KeyLimits
from ..errors import MethodNotAllowed, NotFound, Problem, RequestError, describe
from ..http.access_log import ROUTE, AccessLog
from ..http.json_response import error_response
from ..http.request_body import ClientLeft
from ..http.route_spec import RouteSpec
from ..routing.route_header import RouteHeader
from ..services import Services
from ..settings.config import Config
from ..transport.sockets import WILDCARDS
from .route_table import route_table


def create_app(services: Services) -> Starlette:
    """The whole HTTP surface of one daemon."""
    app = Starlette(
        routes=[_route(spec) for spec in route_table(services)],
        middleware=[
            *([Middleware(AccessLog)] if services.config.access_log else []),
            Middleware(RouteHeader),
            Middleware(
                RequestGate,
                allowed_origins=services.config.allowed_origins,
                max_body_bytes=services.config.max_body_bytes,
                max_upload_bytes=services.config.max_upload_bytes,
                allowed_hosts=_host_names(services.config),
                keys=KeyRing(KeyStore(services.config.paths.keys)),
                limits=KeyLimits(
                    rate=Rate.parse(services.config.key_rate) if services.config.key_rate else None,
                    at_once=services.config.key_requests,
                ),
            ),
        ],
        exception_handlers={
            RequestError: _answer,
            ModelError: _answer,
            BackendError: _answer,
            HTTPException: _answer_http,
            ClientLeft: _answer_nobody,
            Exception: _answer,
        },
    )
    # A redirect would turn a POST with a slash too many into a GET for some clients.
    app.router.redirect_slashes = False
    return app


class NamedRoute(Route):
    """A route that says in the scope which one it is, for the log."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As `Route` does."""
        match, child = super().matches(scope)
        if match is not Match.NONE:
            child[ROUTE] = self.path
        return match, child


def _host_names(config: Config) -> list[str]:
    """The names that the owner gave this machine; an address to listen on is one of them."""
    if config.host in WILDCARDS:
        return [*config.allowed_hosts]
    return [*config.allowed_hosts, f"[{config.host}]" if ":" in config.host else config.host]


def _route(spec: RouteSpec) -> Route:
    route = NamedRoute(spec.path, spec.endpoint, methods=[spec.method])
    if spec.stream is not None and route.methods is not None:
        # Starlette adds HEAD to every GET, and the head of a stream would be one without an end.
        route.methods.discard("HEAD")
    return route


async def _answer(request: Request, error: Exception) -> Response:
    return error_response(describe(error), request.scope["path"])


async def _answer_nobody(request: Request, error: Exception) -> Response:
    """The client has left; whatever is sent goes nowhere."""
    return Response(status_code=499)


async def _answer_http(request: Request, error: Exception) -> Response:
    """What the router itself refuses."""
    assert isinstance(error, HTTPException)
    path: str = request.scope["path"]
    if error.status_code == HTTPStatus.NOT_FOUND:
        problem = describe(NotFound("There is nothing at this path.", hint="See /openapi.json."))
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        problem = describe(
            MethodNotAllowed(
                f"This path does not take {request.method[:20]}.",
                hint="See /openapi.json.",
                headers={"allow": ", ".join(_methods(request))},
            )
        )
    else:
        problem = Problem(status=error.status_code, code="invalid_request", message=error.detail)
    return error_response(problem, path)


def _methods(request: Request) -> list[str]:
    """What the path does take; each method is a route of its own."""
    app: Starlette = request.app
    routes = [route for route in app.routes if isinstance(route, Route)]
    path = next(r.path for r in routes if r.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for r in routes if r.path == path for method in r.methods or ()})
