"""`DaemonClient` against a working daemon and against misbehaving servers."""

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
def serving(path: Path, *answers: bytes) -> Generator[DaemonClient, None, None]:
    """Answer each connection with one response and close it after reading the request head."""
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


def test_requests_are_decoded(daemon: Any) -> None:
    client = DaemonClient(daemon.paths.socket)
    assert client.answers()
    assert client.status().version == daemon.version
    assert client.models().models[0].name == "smollm2:135m"
    assert client.post("/ingle/v1/generations", {"model": "ü"}, dict)["id"] == "gen-1"
    assert daemon.requests[-1] == ("POST", "/ingle/v1/generations", {"model": "ü"})


def test_missing_socket_means_not_running(paths: Paths) -> None:
    client = DaemonClient(paths.socket)
    assert not client.answers()
    with pytest.raises(DaemonUnreachable, match="not running"):
        client.status()


def test_stale_socket_does_not_answer(paths: Paths) -> None:
    paths.make_private()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(paths.socket))
    assert not DaemonClient(paths.socket).answers()


def test_error_response_is_raised_with_all_fields(daemon: Any) -> None:
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


def test_error_response_of_a_route_of_ollama_is_raised_with_its_sentence(paths: Paths) -> None:
    body = b'{"error": "model not found"}'
    with (
        serving(paths.socket, response(body, "404 Not Found")) as client,
        pytest.raises(DaemonError, match=r"^model not found$"),
    ):
        client.status()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 1}'])
def test_error_response_without_the_error_schema(paths: Paths, body: bytes) -> None:
    with (
        serving(paths.socket, response(body, "502 Bad Gateway")) as client,
        pytest.raises(DaemonError, match="HTTP status 502"),
    ):
        client.status()


@pytest.mark.parametrize("body", [b"[1]", b"nonsense", b"\xff"])
def test_response_that_is_not_a_json_object_is_an_error(paths: Paths, body: bytes) -> None:
    with (
        serving(paths.socket, response(body)) as client,
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
def test_truncated_response_raises_connection_lost(paths: Paths, answer: bytes) -> None:
    with serving(paths.socket, answer) as client, pytest.raises(ConnectionLost):
        client.status()


def test_truncated_event_stream_raises_connection_lost(paths: Paths) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b"data: {}\n\n"
    with serving(paths.socket, head + b"%x\r\n%b\r\n" % (len(event), event)) as client:
        events = client.events("GET", "/x")
        assert next(events).event == "message"
        with pytest.raises(ConnectionLost):
            next(events)


def test_unresponsive_server_times_out(paths: Paths) -> None:
    paths.make_private()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.socket))
        listener.listen()
        with pytest.raises(DaemonSilent, match="does not answer"):
            DaemonClient(paths.socket).get("/health", dict, timeout=0.05)


def test_error_response_before_the_body_is_read(paths: Paths) -> None:
    body = b'{"error": {"code": "body_too_large", "message": "Too large.", "hint": null}}'
    with (
        serving(paths.socket, response(body, "413 Too Large")) as client,
        pytest.raises(DaemonError, match="Too large"),
    ):
        client.post("/x", {"prompt": "x" * 2**22}, dict)


def test_socket_of_another_user_is_refused(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 54321)
    with pytest.raises(ClientError, match="another user"):
        DaemonClient(daemon.paths.socket).status()
    assert daemon.requests == []


def test_error_event_is_raised_from_the_stream(daemon: Any) -> None:
    daemon.answer = [
        ("delta", {"text": "a"}),
        ("error", {"error": {"code": "worker_died", "message": "It died.", "hint": "Again."}}),
    ]
    events = DaemonClient(daemon.paths.socket).events("GET", "/ingle/v1/generations/gen-1/events")
    assert next(events).event == "delta"
    with pytest.raises(DaemonError, match=r"It died\."):
        next(events)
