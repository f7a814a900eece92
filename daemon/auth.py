"""Who may ask at all, decided from the connection and the headers before any body is read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import (
    BodyTooLarge,
    Forbidden,
    InvalidBody,
    RequestError,
    Unauthorized,
    UnsupportedMediaType,
    describe,
)
from .http.http_protocol import CONNECTION, TARGET_IS_PATH
from .http.peer import Connection
from .http.responses import error_response

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
# A unix socket has no name of its own, so clients put a made-up one into their URL.
UNIX_NAMES = LOOPBACK_NAMES | {"ingle"}

# Every browser sends Sec-Fetch-Site and no page can leave it out. Sec-Fetch-Mode alone is no
# sign: Node's fetch sends it, and with it many editors and agents.
BROWSER_SIGNS = ("origin", "referer", "sec-fetch-site", "sec-fetch-dest", "sec-fetch-user")

UPLOADS = ("/v1/files", "/api/blobs/")
"""Paths whose bodies go to a file as they come."""

METHODS = "GET, POST, DELETE"
HEADER_LIST = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]*")


class Gate:
    """ASGI middleware that passes a request on only if its sender may use this daemon."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed_origins: Collection[str],
        max_body_bytes: int,
        max_upload_bytes: int,
        uid: Callable[[], int] | None = None,
    ) -> None:
        self._app = app
        # A sandboxed frame says "null", so that word can name nobody.
        self._origins = frozenset(allowed_origins) - {"null", "*"}
        self._max_body_bytes = max_body_bytes
        self._max_upload_bytes = max_upload_bytes
        self._uid = uid or _own_uid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, answer a preflight, or pass on."""
        if scope["type"] != "http":
            raise RuntimeError(f"The daemon speaks no {scope['type']}.")
        headers = Headers(scope=scope)
        try:
            origin = self._admit(scope, headers)
        except RequestError as error:
            # Closing drops an unread body, and with it for some clients the answer: an honest one
            # whose body is too large may send it to the end, to be thrown away.
            close = not isinstance(error, BodyTooLarge)
            refusal = error_response(describe(error), scope["path"], close=close)
            await refusal(scope, receive, send)
            return
        if origin is None:
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _preflight(headers, origin)(scope, receive, send)
        else:
            await self._app(scope, receive, _sharing_with(origin, send))

    def _admit(self, scope: Scope, headers: Headers) -> str | None:
        """The listed origin of a browser's request, None for other clients."""
        state = scope.get("state", {})
        connection: Connection | None = state.get(CONNECTION)
        if connection is None:
            raise Unauthorized("Nobody can tell whose connection this is.")
        self._check_user(connection)
        if not state.get(TARGET_IS_PATH, True):
            raise InvalidBody("The request line must hold a path, not a whole address.")
        _check_host(connection, headers)
        origin = self._check_origin(headers)
        self._check_length(scope["path"], headers)
        if origin is not None:
            _check_media_type(scope, headers)
        return origin

    def _check_user(self, connection: Connection) -> None:
        if connection.uid is None:
            raise Unauthorized(
                "The system does not tell which user this connection belongs to.",
                hint="Use the unix socket; `ingle ps` prints where it is.",
            )
        if connection.uid != self._uid():
            raise Forbidden(
                "This daemon belongs to another user.",
                hint="Start your own: `ingle serve --port 0`.",
                code="wrong_user",
            )

    def _check_origin(self, headers: Headers) -> str | None:
        if not any(sign in headers for sign in BROWSER_SIGNS):
            return None
        origins = headers.getlist("origin")
        if len(origins) == 1 and origins[0] in self._origins:
            return origins[0]
        raise Forbidden(
            "This request comes from a web page that may not use the daemon.",
            hint="If you trust the page, list its origin in `allowed_origins`.",
            code="origin_not_allowed",
        )

    def _check_length(self, path: str, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 18:
            raise InvalidBody("The Content-Length header is not a number.")
        uploads = path.startswith(UPLOADS)
        limit = self._max_upload_bytes if uploads else self._max_body_bytes
        if int(length) > limit:
            raise body_too_large(limit, "max_upload_bytes" if uploads else "max_body_bytes")


def _own_uid() -> int:
    # Windows tells no uid of a peer, so there is nothing to compare with.
    return -1 if sys.platform == "win32" else os.geteuid()


def body_too_large(limit: int, setting: str = "max_body_bytes") -> BodyTooLarge:
    """The refusal of a body above `limit` bytes, which the setting says."""
    return BodyTooLarge(
        f"The request's body is larger than the {limit} bytes that are allowed.",
        hint=f"Send less, or raise `{setting}`.",
    )


def _check_host(connection: Connection, headers: Headers) -> None:
    """A page that resolves its own name to 127.0.0.1 still has to send that name as Host."""
    hosts = headers.getlist("host")
    names = UNIX_NAMES if connection.kind == "unix" else LOOPBACK_NAMES
    if len(hosts) == 1:
        host = hosts[0].lower()
        if host in names:
            return
        name, _, port = host.rpartition(":")
        if name in names and (connection.kind == "unix" or port == str(connection.port)):
            return
    raise Forbidden(
        "The Host header must name this machine as 127.0.0.1, localhost or [::1].",
        hint="Use http://127.0.0.1 with the daemon's port in the client's settings.",
        code="host_not_allowed",
    )


def _check_media_type(scope: Scope, headers: Headers) -> None:
    """Pages can send any text without asking first, but JSON only after a preflight."""
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


def _sharing_with(origin: str, send: Send) -> Send:
    async def send_shared(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers.add_vary_header("Origin")
        await send(message)

    return send_shared
