"""Blocking client of the native API over the unix socket.

Built on `http.client`, because importing httpx takes longer than most commands need to run.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, RemoteDisconnected
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from .answer import tolerant
from .client_errors import (
    ClientError,
    ConnectionLost,
    DaemonError,
    DaemonSilent,
    DaemonUnreachable,
)
from .daemon_types import Status
from .document_types import FormBody
from .error_types import read_error
from .model_types import ModelEntries
from .sse_parser import ServerSentEvent, ServerSentEventParser

T = TypeVar("T")

STREAM_SILENCE = 60.0
"""Seconds after which a stream counts as dead; the daemon sends a comment every 15."""


class UnixConnection(HTTPConnection):
    """HTTP over a unix socket whose listener is this same user."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect, and check the user of the listener; raises `OSError` or `ClientError`."""
        if sys.platform == "win32":
            raise ClientError(
                "The command line talks to the daemon over a unix socket, which this system lacks.",
                "Run ingle inside WSL2.",
            )
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
        if sys.platform == "linux":
            self._check_listener()

    def _check_listener(self) -> None:
        """Refuse another user's socket: what is typed here must not reach them."""
        credentials = struct.Struct("3i")
        packed = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
        pid, uid, _ = cast("tuple[int, int, int]", credentials.unpack(packed))
        if uid != os.getuid():
            raise ClientError(
                f"A process of another user (uid {uid}, pid {pid}) listens on {self._path}.",
                "Set INGLE_HOME or INGLE_SOCKET to a place of your own.",
            )


class DaemonClient:
    """The daemon that listens on one socket; each call is a connection of its own."""

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path

    def answers(self, timeout: float = 5.0) -> bool:
        """Whether a daemon answers; False also if it is just ending.

        Raises `ClientError` if it is silent or belongs to another user.
        """
        try:
            self.get("/health", dict, timeout=timeout)
        except DaemonUnreachable:
            return False
        return True

    def status(self) -> Status:
        """Return the state of the daemon and its loaded models."""
        return self.get("/ingle/v1/status", Status)

    def models(self, *, compare: bool = False) -> ModelEntries:
        """Return installed models, those of the catalog, running downloads.

        With `compare` the daemon reads files of the same length first, which may take minutes.
        """
        if compare:
            return self.get("/ingle/v1/models?compare=true", ModelEntries, timeout=None)
        return self.get("/ingle/v1/models", ModelEntries)

    def get(self, path: str, kind: type[T], *, timeout: float | None = 30.0) -> T:
        """Return the answer as `kind`; raises `ClientError`, as all methods do."""
        return self._request("GET", path, None, kind, timeout)

    def post(self, path: str, body: object, kind: type[T], *, timeout: float | None = 30.0) -> T:
        """Send `body` as JSON, and return the answer as `kind`."""
        return self._request("POST", path, body, kind, timeout)

    def post_form(self, path: str, form: FormBody, *, timeout: float) -> str:
        """Send a form, and return the answer as text."""
        with self._response("POST", path, form, timeout) as response:
            return response.read().decode(errors="replace")

    def post_for_bytes(self, path: str, body: object, *, timeout: float) -> bytes:
        """Send `body` as JSON, and return the answer as it is."""
        with self._response("POST", path, body, timeout) as response:
            return response.read()

    def delete(self, path: str, kind: type[T], *, timeout: float | None = 30.0) -> T:
        """Return the answer to a deletion as `kind`."""
        return self._request("DELETE", path, None, kind, timeout)

    def events(self, method: str, path: str, body: object = None) -> Iterator[ServerSentEvent]:
        """Yield events until the stream ends; an `error` event raises `DaemonError`."""
        with self._response(method, path, body, STREAM_SILENCE) as response:
            parser = ServerSentEventParser()
            while chunk := response.read1(65536):
                for event in parser.feed(chunk):
                    if event.event == "error":
                        raise _daemon_error(event.data, 0)
                    yield event

    def _request(
        self, method: str, path: str, body: object, kind: type[T], timeout: float | None
    ) -> T:
        with self._response(method, path, body, timeout) as response:
            content = response.read()
            if not content and response.getheader("Content-Length") != "0":
                # `http.client` takes a head that was cut off for a whole one.
                raise RemoteDisconnected("the connection closed within the answer")
        return _decode(content or b"{}", kind, path)

    @contextmanager
    def _response(
        self, method: str, path: str, body: object, timeout: float | None
    ) -> Generator[HTTPResponse, None, None]:
        connection = UnixConnection(self.socket_path, timeout)
        headers = {"Accept": "application/json, text/event-stream"}
        content = None
        if isinstance(body, FormBody):
            content, headers["Content-Type"] = body
        elif body is not None:
            content = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        try:
            self._connect(connection)
            # A body that is refused before it is read breaks the pipe; the refusal still arrives.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, content, headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _daemon_error(response.read(), response.status)
            yield response
        except TimeoutError as error:
            raise DaemonSilent(
                f"The daemon on {self.socket_path} does not answer.",
                "It may be busy. If it stays so, end its process: the next command starts one.",
            ) from error
        except (OSError, HTTPException) as error:
            raise ConnectionLost(
                "The daemon went away in the middle of an answer.",
                "Try again: the next command starts it. Its log shows what happened.",
            ) from error
        finally:
            connection.close()

    def _connect(self, connection: UnixConnection) -> None:
        try:
            connection.connect()
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            raise DaemonUnreachable(
                f"The daemon is not running: nothing listens on {self.socket_path}.",
                "`ingle serve` runs it in the foreground.",
            ) from error
        except PermissionError as error:
            raise ClientError(
                f"{self.socket_path} may not be opened.",
                "Set INGLE_HOME or INGLE_SOCKET to a place of your own.",
            ) from error


def read_event(event: ServerSentEvent, kind: type[T]) -> T:
    """Return the data of an event as `kind`; raises `ClientError`."""
    return _decode(event.data, kind, event.event)


def _decode(content: bytes | str, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content, type=tolerant(kind))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ClientError(
            f"The daemon's answer ({what}) was not understood: {error}.",
            "Its version may be another one, or another program listens on the socket: "
            "`ingle ps` shows both.",
        ) from error


def _daemon_error(content: bytes | str, status: int) -> DaemonError:
    error = read_error(content, status)
    return DaemonError(error.message, error.hint, error.code, status=status)
