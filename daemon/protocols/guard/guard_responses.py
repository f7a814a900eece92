"""Answers to guarded programs: their provider's, or that of a model on this machine."""

from __future__ import annotations

from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ingle.backends.base.errors import BackendError

from ...http.bodies import ClientLeft, run_until_disconnect
from ...http.http_protocol import CONNECTION
from ...routing.guard.guarded_call import GuardedCall
from ...routing.guard.guarded_request import CREDENTIALS, Headers
from ...transport.peer import PeerConnection


class PassedAnswer(Response):
    """A provider's answer, passed on as it arrives; a client that leaves ends the call.

    The request holds the call, and closes it where no answer is sent.
    """

    def __init__(self, call: GuardedCall, status: int, headers: Headers) -> None:
        self.status_code = status
        self.background = None
        self.raw_headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers
        ]
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        connection: PeerConnection = scope["state"][CONNECTION]
        try:
            await run_until_disconnect(receive, self._pump(send))
        except ClientLeft:
            return
        except BackendError:
            connection.abort()  # the client must not take a part for the whole

    async def _pump(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        async with aclosing(self._call.body()) as pieces:
            async for piece in pieces:
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class AnsweredHere(Response):
    """The answer of this daemon to a guarded request, at its own path, without the login."""

    def __init__(self, path: str, body: bytes) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = []
        self._path = path
        self._content = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the daemon's application answer."""
        dropped = {*(name.encode() for name in CREDENTIALS), b"content-length", b"content-encoding"}
        headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
        headers.append((b"content-length", b"%d" % len(self._content)))
        first = True

        async def receive_body() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": self._content, "more_body": False}
            return await receive()

        path = self._path.encode()
        inner = {**scope, "path": self._path, "raw_path": path, "headers": headers}
        await scope["app"](inner, receive_body, send)
