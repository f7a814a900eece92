"""Who may ask at all, decided from the connection and the headers before any body is read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator

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
from .keys import PREFIX as KEY_PREFIX
from .keys import KeyRing

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
# A unix socket has no name of its own, so clients put a made-up one into their URL.
UNIX_NAMES = LOOPBACK_NAMES | {"ingle"}

# Every browser sends Sec-Fetch-Site and no page can leave it out. Sec-Fetch-Mode alone is no
# sign: Node's fetch sends it, and with it many editors and agents.
BROWSER_SIGNS = ("origin", "referer", "sec-fetch-site", "sec-fetch-dest", "sec-fetch-user")

UPLOADS = ("/v1/files", "/api/blobs/")
"""Paths whose bodies go to a file as they come."""

METHODS = "GET, POST, DELETE"
# OpenAI's clients, Anthropic's, and those of Azure.
KEY_HEADERS = ("authorization", "x-api-key", "api-key")
CHALLENGE = {"www-authenticate": "Bearer"}
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
        keys: KeyRing | None = None,
        uid: Callable[[], int] | None = None,
    ) -> None:
        self._app = app
        # A sandboxed frame says "null", so that word can name nobody.
        self._origins = frozenset(allowed_origins) - {"null", "*"}
        self._max_body_bytes = max_body_bytes
        self._max_upload_bytes = max_upload_bytes
        self._keys = keys
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
        self._check_user(connection, scope, headers)
        if not state.get(TARGET_IS_PATH, True):
            raise InvalidBody("The request line must hold a path, not a whole address.")
        _check_host(connection, headers)
        origin = self._check_origin(headers)
        self._check_length(scope["path"], headers)
        if origin is not None:
            _check_media_type(scope, headers)
        return origin

    def _check_user(self, connection: Connection, scope: Scope, headers: Headers) -> None:
        """A key stands in for the user where the system does not name one, or names another.

        A key that is wrong is refused even where none is needed: whoever set one wants it to count.
        """
        has_key = self._has_key(headers)
        if connection.uid is None:
            # A browser asks without its key first, and gets no more than the answer to that.
            if has_key or self._is_preflight(scope, headers):
                return
            raise Unauthorized(
                "The system does not tell which user this connection belongs to.",
                hint="Send a key that `ingle key new` made, as `Authorization: Bearer`, or use the "
                "unix socket; `ingle ps` prints where it is.",
                headers=CHALLENGE,
            )
        if connection.uid != self._uid() and not (has_key and connection.kind == "tcp"):
            raise Forbidden(
                "This daemon belongs to another user.",
                hint="Start your own: `ingle serve --port 0`.",
                code="wrong_user",
            )

    def _has_key(self, headers: Headers) -> bool:
        """Whether a key came along; raises `Unauthorized` for one that is not, or no more, valid.

        Other words in its place are no keys: clients that need none send `x`, `ollama` or `sk-…`.
        """
        said = {key for name in KEY_HEADERS for key in _keys_said(headers.getlist(name))}
        for key in said:
            record = self._keys.find(key) if self._keys is not None else None
            if record is None:
                raise Unauthorized(
                    "This key is not, or no longer, valid.",
                    hint="`ingle key list` shows which there are, `ingle key new` makes one.",
                    code="invalid_api_key",
                    headers=CHALLENGE,
                )
            assert self._keys is not None
            if self._keys.expired(record):
                raise Unauthorized(
                    f"The key '{record.name}' has expired.",
                    hint="`ingle key new` makes another.",
                    code="invalid_api_key",
                    headers=CHALLENGE,
                )
            self._keys.note_use(record)
        return bool(said)

    def _is_preflight(self, scope: Scope, headers: Headers) -> bool:
        asks = "access-control-request-method" in headers and scope["method"] == "OPTIONS"
        origins = headers.getlist("origin")
        return asks and len(origins) == 1 and origins[0] in self._origins

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


def _keys_said(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        scheme, _, rest = value.strip().partition(" ")
        word = rest.strip() if scheme.lower() == "bearer" else value.strip()
        if word.startswith(KEY_PREFIX):
            yield word


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
