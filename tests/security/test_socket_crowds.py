"""Crowds of slow and vanished clients, and bodies without an end, against a daemon's process."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from .conftest import WatchedDaemon

    WatchDaemon = Callable[..., WatchedDaemon]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs unix sockets"),
]

MIB = 2**20


def connect(daemon: WatchedDaemon) -> socket.socket:
    return socket.create_connection(("127.0.0.1", daemon.port), timeout=30)


def head(length: int | None, path: str = "/v1/chat/completions") -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode()


def settled(daemon: WatchedDaemon, descriptors: int) -> Iterator[str]:
    """What has not gone back to how it was; empty when all has."""
    process = psutil.Process(daemon.process.pid)
    metrics = daemon.owner.get("/metrics").text.splitlines()
    requests = [line for line in metrics if line.startswith("ingle_requests{")]
    if any(float(line.split()[-1]) for line in requests):
        yield str(requests)
    if process.num_fds() > descriptors:
        yield f"{process.num_fds()} descriptors instead of {descriptors}"


def until_settled(daemon: WatchedDaemon, descriptors: int) -> None:
    deadline = time.monotonic() + 20
    while left := list(settled(daemon, descriptors)):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_500_clients_that_vanish_leave_nothing_behind(watch_daemon: WatchDaemon) -> None:
    """In their headers, in their bodies, before the first token, in a stream, after it."""
    daemon = watch_daemon()
    body = json.dumps(
        {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    ).encode()
    request = head(len(body)) + body
    with connect(daemon) as first:
        first.sendall(request)
        assert first.recv(100)
    descriptors = psutil.Process(daemon.process.pid).num_fds() + 4
    dice = random.Random(7)
    for number in range(500):
        with connect(daemon) as client:
            client.sendall(request[: dice.randrange(1, len(request) + 1)])
            if number % 3 == 0:
                client.sendall(b"")
                with suppress(TimeoutError):
                    client.settimeout(dice.random() * 0.02)
                    client.recv(dice.randrange(1, 2000))
            if number % 5 == 0:  # a reset instead of an orderly end
                linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    until_settled(daemon, descriptors)
    with connect(daemon) as last:
        last.sendall(request)
        assert last.recv(12) == b"HTTP/1.1 200"


def test_a_crowd_of_slow_clients_keeps_nobody_out(watch_daemon: WatchDaemon) -> None:
    """200 that write a byte at a time and 40 that read none: the owner's own are answered."""
    daemon = watch_daemon()
    dripping = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"a" * 500
    with ExitStack() as held:
        crowd = [held.enter_context(connect(daemon)) for _ in range(200)]
        readers = [held.enter_context(connect(daemon)) for _ in range(40)]
        for reader in readers:
            reader.sendall(b"GET /ingle/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        waits: list[float] = []
        for letter in range(60):
            for client in crowd:
                with suppress(OSError):
                    client.sendall(dripping[letter : letter + 1])
            began = time.monotonic()
            assert daemon.owner.get("/health").status_code == 200
            with connect(daemon) as own:
                own.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert own.recv(12) == b"HTTP/1.1 200"
            waits.append(time.monotonic() - began)
            time.sleep(0.05)
        print(f"two /health: median {sorted(waits)[30]:.4f} s, longest {max(waits):.4f} s")
        # Those that drip are cut off ten seconds after they came.
        for client in crowd:
            client.settimeout(15)
            with suppress(ConnectionError):
                assert client.recv(10) == b""


@pytest.mark.parametrize("lying", [False, True], ids=["chunked", "a length that is not true"])
def test_a_body_without_an_end_takes_no_memory(watch_daemon: WatchDaemon, lying: bool) -> None:
    daemon = watch_daemon(INGLE_MAX_BODY_BYTES=str(16 * MIB))
    process = psutil.Process(daemon.process.pid)
    before, peak = process.memory_info().rss, 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.01):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    sent, chunk = 0, b"100000\r\n" + b" " * MIB + b"\r\n"
    with connect(daemon) as client:
        client.sendall(head(10 if lying else None))
        with suppress(OSError):
            while sent < 1024 * MIB:
                client.sendall(chunk)
                sent += MIB
        with suppress(OSError):
            print(f"{sent / MIB:.0f} MiB were taken", client.recv(100))
    ended.set()
    watcher.join()
    print(f"{(peak - before) / MIB:.0f} MiB more than before")
    assert peak - before < 3 * 16 * MIB
    assert daemon.owner.get("/health").status_code == 200
