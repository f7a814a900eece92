"""The client against a server that behaves, and ones that do not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ingle.daemon.client.client_errors import (
    ClientError,
    ConnectionLost,
    DaemonError,
    DaemonSilent,
    DaemonUnreachable,
)
from ingle.daemon.client.sync_client import DaemonClient
from ingle.daemon.settings.paths import Paths


@contextmanager
def answering(path: Path, *answers: bytes) -> Generator[DaemonClient, None, None]:
    """Give each connection one answer and close it, having read the request's head."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield DaemonClient(path)
        thread.join(10)


def response(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def test_talks_to_the_daemon(daemon: Any) -> None:
    client = DaemonClient(daemon.paths.socket)
    assert client.answers()
    assert client.status().version == daemon.version
    assert client.models().models[0].name == "smollm2:135m"
    assert client.post("/ingle/v1/generations", {"model": "ü"}, dict)["id"] == "gen-1"
    assert daemon.requests[-1] == ("POST", "/ingle/v1/generations", {"model": "ü"})


def test_nobody_there(paths: Paths) -> None:
    client = DaemonClient(paths.socket)
    assert not client.answers()
    with pytest.raises(DaemonUnreachable, match="not running"):
        client.status()


def test_socket_that_a_killed_daemon_left(paths: Paths) -> None:
    paths.make_private()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(paths.socket))
    assert not DaemonClient(paths.socket).answers()


def test_error_of_the_daemon(daemon: Any) -> None:
    daemon.failure = 507, {"error": {"code": "disk_full", "message": "Full.", "hint": "Clean."}}
    with pytest.raises(DaemonError) as caught:
        DaemonClient(daemon.paths.socket).models()
    error = caught.value
    assert (error.message, error.hint, error.code, error.status) == (
        "Full.",
        "Clean.",
        "disk_full",
        507,
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": "text"}'])
def test_error_in_another_shape_still_gets_a_sentence(paths: Paths, body: bytes) -> None:
    with (
        answering(paths.socket, response(body, "502 Bad Gateway")) as client,
        pytest.raises(DaemonError, match="HTTP status 502"),
    ):
        client.status()


@pytest.mark.parametrize("body", [b"[1]", b"nonsense", b"\xff"])
def test_answer_that_is_no_object(paths: Paths, body: bytes) -> None:
    with (
        answering(paths.socket, response(body)) as client,
        pytest.raises(ClientError, match="not understood"),
    ):
        client.status()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    ],
)
def test_server_that_breaks_off(paths: Paths, answer: bytes) -> None:
    with answering(paths.socket, answer) as client, pytest.raises(ConnectionLost):
        client.status()


def test_stream_that_breaks_off(paths: Paths) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b"data: {}\n\n"
    with answering(paths.socket, head + b"%x\r\n%b\r\n" % (len(event), event)) as client:
        events = client.events("GET", "/x")
        assert next(events).event == "message"
        with pytest.raises(ConnectionLost):
            next(events)


def test_server_that_falls_silent(paths: Paths) -> None:
    paths.make_private()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        listener.listen()
        with pytest.raises(DaemonSilent, match="does not answer"):
            DaemonClient(paths.socket).get("/health", dict, timeout=0.05)


def test_refusal_of_a_body_that_was_not_read(paths: Paths) -> None:
    body = b'{"error": {"code": "body_too_large", "message": "Too large.", "hint": null}}'
    with (
        answering(paths.socket, response(body, "413 Too Large")) as client,
        pytest.raises(DaemonError, match="Too large"),
    ):
        client.post("/x", {"prompt": "x" * 2**22}, dict)


def test_stranger_on_the_socket_is_refused(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 54321)
    with pytest.raises(ClientError, match="another user"):
        DaemonClient(daemon.paths.socket).status()
    assert daemon.requests == []


def test_error_event_ends_a_stream(daemon: Any) -> None:
    daemon.answer = [
        ("delta", {"text": "a"}),
        ("error", {"error": {"code": "worker_died", "message": "It died.", "hint": "Again."}}),
    ]
    events = DaemonClient(daemon.paths.socket).events("GET", "/ingle/v1/generations/gen-1/events")
    assert next(events).event == "delta"
    with pytest.raises(DaemonError, match=r"It died\."):
        next(events)
