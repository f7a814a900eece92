"""`AccessLog`: one log line per request, with its method, route, status and duration."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("ingle.access")

ROUTE = "ingle.route"
"""The key of the ASGI scope that holds the pattern of the request's route."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class AccessLog:
    """Logs the method, the pattern of the route, the status and the duration of requests.

    Addresses are not logged: names in a path and values of a query can be private.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and log it when it has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 499

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            milliseconds = round(1000 * (time.monotonic() - started))
            route = scope.get(ROUTE, "(no route)")
            method = scope["method"] if scope["method"] in _METHODS else "(other)"
            fields = {"method": method, "route": route, "status": status, "ms": milliseconds}
            log.info(
                "%s %s %d %d ms", method, route, status, milliseconds, extra={"fields": fields}
            )
