"""Blocking client of the native API over the unix socket.

Built on `http.client`, because importing httpx takes longer than most commands need to run.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, RemoteDisconnected
from pathlib import Path
from typing import Any, cast

from .api_types import ModelEntry, Status
from .client_errors import (
    ClientError,
    ConnectionLost,
    DaemonError,
    DaemonSilent,
    DaemonUnreachable,
)
from .sse_parser import ServerSentEvent, ServerSentEventParser

JsonObject = dict[str, Any]

STREAM_SILENCE = 60.0
"""Seconds after which a stream counts as dead; the daemon sends a comment every 15."""


class UnixConnection(HTTPConnection):
    """HTTP over a unix socket whose listener is this same user."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._timeout = timeout

    def connect(self) -> None:
        """Connect and check who answers; raises `OSError` or `ClientError`."""
        if sys.platform == "win32":
            raise ClientError(
                "The command line talks to the daemon over a unix socket, which this system lacks.",
                "Run ingle inside WSL2.",
            )
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._timeout)
        self.sock.connect(str(self._path))
        if sys.platform == "linux":
            self._check_listener()

    def _check_listener(self) -> None:
        """Refuse a stranger's socket: what is typed here must not reach another user."""
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
        """True when the daemon is alive, False when there is none or it just ends.

        Raises `ClientError`, where it is silent or not ours.
        """
        try:
            self.get("/health", timeout=timeout)
        except (DaemonUnreachable, ConnectionLost):
            return False
        return True

    def status(self) -> Status:
        """The state of the daemon and its loaded models."""
        return cast("Status", self.get("/ingle/v1/status"))

    def models(self) -> list[ModelEntry]:
        """Installed models, then those of the catalog."""
        return cast("list[ModelEntry]", self.get("/ingle/v1/models")["models"])

    def pulls(self) -> list[JsonObject]:
        """The downloads that run."""
        return cast("list[JsonObject]", self.get("/ingle/v1/models").get("pulls") or [])

    def get(self, path: str, *, timeout: float | None = 30.0) -> JsonObject:
        """The JSON object at `path`; raises `ClientError`."""
        return self._request("GET", path, None, timeout)

    def post(self, path: str, body: JsonObject, *, timeout: float | None = 30.0) -> JsonObject:
        """The daemon's answer to `body`; raises `ClientError`."""
        return self._request("POST", path, body, timeout)

    def delete(self, path: str, *, timeout: float | None = 30.0) -> JsonObject:
        """The daemon's answer; raises `ClientError`."""
        return self._request("DELETE", path, None, timeout)

    def events(
        self, method: str, path: str, body: JsonObject | None = None
    ) -> Iterator[tuple[str, JsonObject]]:
        """Yield (event, data) until the stream ends; an `error` event raises `DaemonError`."""
        with self._response(method, path, body, STREAM_SILENCE) as response:
            parser = ServerSentEventParser()
            while chunk := response.read1(65536):
                for event in parser.feed(chunk):
                    if event.event == "error":
                        raise _daemon_error(event.data, 0)
                    yield event.event, _json_object(event)

    def _request(
        self, method: str, path: str, body: JsonObject | None, timeout: float | None
    ) -> JsonObject:
        with self._response(method, path, body, timeout) as response:
            content = response.read()
            if not content and response.getheader("Content-Length") != "0":
                # `http.client` takes a head that was cut off for a whole one.
                raise RemoteDisconnected("the connection closed within the answer")
        return _json_object(ServerSentEvent(path, content.decode("utf-8", "replace") or "{}"))

    @contextmanager
    def _response(
        self, method: str, path: str, body: JsonObject | None, timeout: float | None
    ) -> Generator[HTTPResponse, None, None]:
        connection = UnixConnection(self.socket_path, timeout)
        headers = {"Accept": "application/json, text/event-stream"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
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
                "Try again: the next command starts it. Its log tells what happened.",
            ) from error
        finally:
            connection.close()

    def _connect(self, connection: UnixConnection) -> None:
        try:
            connection.connect()
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            raise DaemonUnreachable(
                f"The daemon is not running: nobody listens on {self.socket_path}.",
                "`ingle serve` runs it in the foreground.",
            ) from error
        except PermissionError as error:
            raise ClientError(
                f"{self.socket_path} may not be opened.",
                "Set INGLE_HOME or INGLE_SOCKET to a place of your own.",
            ) from error


def _json_object(event: ServerSentEvent) -> JsonObject:
    try:
        value: object = json.loads(event.data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ClientError(
            f"The daemon's answer ({event.event}) is not a JSON object.",
            "Perhaps another program listens on the socket: `ingle ps` says where it is.",
        )
    return cast("JsonObject", value)


def _daemon_error(content: bytes | str, status: int) -> DaemonError:
    # Commands that succeed do without msgspec, which is slow to import.
    from .error_types import read_error

    error = read_error(content, status)
    return DaemonError(error.message, error.hint, error.code, status=status)
