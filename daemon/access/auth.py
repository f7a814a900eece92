"""Authentication of requests, from the connection and the headers, before any body is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from msgspec import structs
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..error_status import describe
from ..errors import (
    BodyTooLarge,
    Forbidden,
    InvalidBody,
    RequestError,
    Unauthorized,
    UnsupportedMediaType,
)
from ..http.bodies import error_response
from ..http.http_protocol import CONNECTION, TARGET_IS_PATH
from ..http.route_access import ADMIN
from ..http.route_spec import RouteIndex
from ..settings.config import Config
from ..transport.peer import PeerConnection, own_uid
from ..transport.sockets import WILDCARDS
from .api_keys import PREFIX as KEY_PREFIX
from .api_keys import KeyRecord, KeyRing, KeyStore, RequestRate
from .permission import ADMISSION, OWNER, Permission, use_permission
from .rate_limit import KeyLimits

# Every browser sends Sec-Fetch-Site, and no page can omit it. Sec-Fetch-Mode alone is no sign of
# one: Node's fetch sends it, too, and with it many editors and agents.
BROWSER_SIGNS = ("origin", "referer", "sec-fetch-site", "sec-fetch-dest", "sec-fetch-user")

METHODS = "GET, POST, DELETE"
# Sent by clients of OpenAI, Anthropic and Azure.
KEY_HEADERS = ("authorization", "x-api-key", "api-key")
CHALLENGE = {"www-authenticate": "Bearer"}
HEADER_LIST = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]*")

ANY_ORIGIN = ("*", "http://*", "https://*")
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
# A unix socket has no host name, so clients put a made-up one into their URL.
UNIX_NAMES = LOOPBACK_NAMES | {"ingle"}


class RequestGate:
    """ASGI middleware that rejects requests of clients that may not use this daemon."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: RouteIndex,
        config: Config,
        uid: Callable[[], int] = own_uid,
    ) -> None:
        """`uid` returns the owner of the daemon."""
        self._app = app
        self._routes = routes
        self._config = config
        # Every sandboxed frame sends "null", so it cannot identify a page.
        self._origins = frozenset(config.allowed_origins) - {"null", *ANY_ORIGIN}
        self._hosts = LOOPBACK_NAMES | _host_names(config)
        self._keys = KeyRing(KeyStore(config.paths.keys))
        self._limits = KeyLimits(
            rate=RequestRate.parse(config.key_rate) if config.key_rate else None,
            at_once=config.key_requests,
        )
        self._uid = uid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, answer a preflight, or call the application."""
        headers = Headers(scope=scope)
        if scope["type"] == "websocket":
            await self._admit_socket(scope, headers, receive, send)
            return
        # Before anything is checked, so that what is served is what was checked.
        scope["path"] = self._routes.intended_path(scope["method"], scope["path"])
        with ExitStack() as counted:
            try:
                origin, key = self._admit(scope, headers)
                # Always set: a pipelined request inherits the context of the previous one.
                counted.enter_context(use_permission(self._permission(key)))
                if key is not None:
                    counted.enter_context(self._limits.request(key))
            except RequestError as error:
                # Closing discards an unread body, and for some clients the response with it. So a
                # client whose body is too large may send all of it, and it is discarded.
                close = not isinstance(error, BodyTooLarge)
                error_format = self._routes.error_format(scope["method"], scope["path"])
                refusal = error_response(describe(error), error_format, close=close)
                await refusal(scope, receive, send)
                return
            if origin is None:
                await self._app(scope, receive, send)
            elif _is_cors_preflight(scope, headers):
                await _preflight(headers, origin)(scope, receive, send)
            else:
                await self._app(scope, receive, _with_cors_headers(origin, send))

    async def _admit_socket(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send
    ) -> None:
        """Admit a WebSocket, whose every request is admitted and counted again."""
        scope["method"] = "GET"

        @contextmanager
        def admitted() -> Generator[None]:
            _, key = self._admit(scope, headers)
            with ExitStack() as counted:
                counted.enter_context(use_permission(self._permission(key)))
                if key is not None:
                    counted.enter_context(self._limits.request(key))
                yield

        try:
            self._admit(scope, headers)
        except RequestError as error:
            error_format = self._routes.error_format("GET", scope["path"])
            await error_response(describe(error), error_format)(scope, receive, send)
            return
        scope["state"][ADMISSION] = admitted
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope, headers: Headers) -> tuple[str | None, KeyRecord | None]:
        """Return the allowed origin of a browser's request, and the key that was sent.

        Raises `RequestError` if the request is rejected; the body is not read.
        """
        state = scope.get("state", {})
        connection: PeerConnection | None = state.get(CONNECTION)
        if connection is None:
            raise Unauthorized("The owner of this connection is unknown.")
        key = self._check_user(connection, scope, headers)
        if not state.get(TARGET_IS_PATH, True):
            raise InvalidBody("The request line must hold a path, not a whole address.")
        self._check_host(connection, headers)
        origin = self._check_origin(headers)
        if key is not None and not _is_cors_preflight(scope, headers):
            self._check_route(key.permission(), scope)
        self._check_length(scope, headers)
        if origin is not None:
            _check_media_type(scope, headers)
        return origin, key

    def _permission(self, key: KeyRecord | None) -> Permission:
        permission = key.permission() if key is not None else OWNER
        fetches = self._config.picture_urls and permission.cloud
        return structs.replace(permission, fetches=True) if fetches else permission

    def _check_user(
        self, connection: PeerConnection, scope: Scope, headers: Headers
    ) -> KeyRecord | None:
        """Return the key; it is needed if the system does not report the user, or reports another.

        An invalid key is rejected even if none is needed: a configured key is meant to be used.
        """
        key = self._key_of(headers)
        if connection.uid is None:
            # A browser sends preflights without the key, and gets only the response to those.
            if key is not None or self._is_preflight(scope, headers):
                return key
            raise Unauthorized(
                "The system does not report which user this connection belongs to.",
                hint="Send a key that `ingle key new` made, as `Authorization: Bearer`, or use the "
                "unix socket; `ingle ps` prints where it is.",
                headers=CHALLENGE,
            )
        if connection.uid != self._uid() and not (key is not None and connection.kind == "tcp"):
            raise Forbidden(
                "This daemon belongs to another user.",
                hint="Start your own: `ingle serve --port 0`.",
                code="wrong_user",
            )
        return key

    def _key_of(self, headers: Headers) -> KeyRecord | None:
        """Return the key that was sent; raises `Unauthorized` for an invalid or expired one.

        Other words in its place are ignored: clients that need none send `x`, `ollama` or `sk-…`.
        """
        said = {key for name in KEY_HEADERS for key in _keys_in(headers.getlist(name))}
        if not said:
            return None
        record = self._keys.find(said.pop())
        if record is None or said:  # two different keys are ambiguous
            raise Unauthorized(
                "This key is not, or no longer, valid.",
                hint="`ingle key list` shows which there are, `ingle key new` makes one.",
                code="invalid_api_key",
                headers=CHALLENGE,
            )
        if self._keys.expired(record):
            raise Unauthorized(
                f"The key '{record.name}' has expired.",
                hint="`ingle key new` makes another.",
                code="invalid_api_key",
                headers=CHALLENGE,
            )
        self._keys.note_use(record)
        return record

    def _is_preflight(self, scope: Scope, headers: Headers) -> bool:
        return _is_cors_preflight(scope, headers) and self._allowed_origin(headers) is not None

    def _allowed_origin(self, headers: Headers) -> str | None:
        origins = headers.getlist("origin")
        if len(origins) != 1:
            return None
        scheme = origins[0].partition("://")[0]
        listed = origins[0] in self._origins or f"{scheme}://*" in self._origins
        return origins[0] if listed else None

    def _check_host(self, connection: PeerConnection, headers: Headers) -> None:
        """Raise `Forbidden` unless exactly one Host header names this machine.

        A page that resolves its own name to this machine still has to send that name.
        """
        hosts = headers.getlist("host")
        names = UNIX_NAMES if connection.kind == "unix" else self._hosts
        if len(hosts) == 1:
            host = hosts[0].lower()
            if host in names:
                return
            name, _, port = host.rpartition(":")
            if name in names and (connection.kind == "unix" or port == str(connection.port)):
                return
        raise Forbidden(
            "The Host header must name this machine as 127.0.0.1, localhost or [::1].",
            hint="Use http://127.0.0.1 with the daemon's port in the client's settings; another "
            "name or address of this machine has to be listed in `allowed_hosts`.",
            code="host_not_allowed",
        )

    def _check_origin(self, headers: Headers) -> str | None:
        if not any(sign in headers for sign in BROWSER_SIGNS):
            return None
        if (origin := self._allowed_origin(headers)) is not None:
            return origin
        raise Forbidden(
            "This request comes from a web page that may not use the daemon.",
            hint="If you trust the page, list its origin in `allowed_origins`.",
            code="origin_not_allowed",
        )

    def _check_route(self, permission: Permission, scope: Scope) -> None:
        """Check that the key covers the route; raises `KeyNotAllowed`."""
        route = self._routes.find(scope["method"], scope["path"])
        access = route.access if route is not None else ADMIN
        permission.check_scope(access.scopes)
        if access.unrestricted:
            permission.check_unrestricted()

    def _check_length(self, scope: Scope, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            raise InvalidBody("The Content-Length header is not a number.")
        route = self._routes.find(scope["method"], scope["path"])
        uploads = route is not None and route.upload
        limit = self._config.max_upload_bytes if uploads else self._config.max_body_bytes
        if int(length) > limit:
            raise BodyTooLarge.above(limit, "max_upload_bytes" if uploads else "max_body_bytes")


def _host_names(config: Config) -> set[str]:
    """Return the hosts that requests may name: those configured, and the listening address.

    Names and addresses have no port; IPv6 addresses are in brackets.
    """
    own = f"[{config.host}]" if ":" in config.host else config.host
    return {*config.allowed_hosts, *([] if config.host in WILDCARDS else [own])}


def _keys_in(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        scheme, _, rest = value.strip().partition(" ")
        word = rest.strip() if scheme.lower() == "bearer" else value.strip()
        if word.startswith(KEY_PREFIX):
            yield word


def _check_media_type(scope: Scope, headers: Headers) -> None:
    """Require JSON: pages can send other text without a preflight, but not that."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body and not is_json(headers):
        raise UnsupportedMediaType(
            "A web page's request must be labelled as JSON.",
            hint="Set the header `Content-Type: application/json`.",
        )


def is_json(headers: Headers) -> bool:
    """Whether the body is labelled as JSON."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def _is_cors_preflight(scope: Scope, headers: Headers) -> bool:
    """Whether it is a preflight request of a browser."""
    return "access-control-request-method" in headers and scope["method"] == "OPTIONS"


def _preflight(headers: Headers, origin: str) -> Response:
    asked = headers.get("access-control-request-headers", "")
    answer = {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": METHODS,
        "access-control-max-age": "600",
        "vary": "Origin",
    }
    if asked and HEADER_LIST.fullmatch(asked):
        answer["access-control-allow-headers"] = asked
    return Response(status_code=204, headers=answer)


def _with_cors_headers(origin: str, send: Send) -> Send:
    async def send_shared(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers.add_vary_header("Origin")
        await send(message)

    return send_shared
