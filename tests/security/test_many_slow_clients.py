"""Many slow or vanished clients, and endless bodies, against a daemon in its own process."""

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


def unreleased(daemon: WatchedDaemon, descriptors: int) -> Iterator[str]:
    """Differences from the idle state; empty once everything is released."""
    process = psutil.Process(daemon.process.pid)
    metrics = daemon.owner.get("/metrics").text.splitlines()
    requests = [line for line in metrics if line.startswith("ingle_requests{")]
    if any(float(line.split()[-1]) for line in requests):
        yield str(requests)
    if process.num_fds() > descriptors:
        yield f"{process.num_fds()} descriptors instead of {descriptors}"


def wait_until_released(daemon: WatchedDaemon, descriptors: int) -> None:
    deadline = time.monotonic() + 120
    while left := list(unreleased(daemon, descriptors)):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_500_vanished_clients_leak_no_resources(watch_daemon: WatchDaemon) -> None:
    """In headers, in bodies, before the first token, during a stream, and after it."""
    daemon = watch_daemon()
    body = json.dumps(
        {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    ).encode()
    request = head(len(body)) + body
    with connect(daemon) as first:
        first.sendall(request)
        assert first.recv(100)
    descriptors = psutil.Process(daemon.process.pid).num_fds() + 4
    rng = random.Random(7)
    for number in range(500):
        with connect(daemon) as client:
            client.sendall(request[: rng.randrange(1, len(request) + 1)])
            if number % 3 == 0:
                client.sendall(b"")
                with suppress(TimeoutError):
                    client.settimeout(rng.random() * 0.02)
                    client.recv(rng.randrange(1, 2000))
            if number % 5 == 0:  # a reset instead of an orderly close
                linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    wait_until_released(daemon, descriptors)
    with connect(daemon) as last:
        last.sendall(request)
        assert last.recv(12) == b"HTTP/1.1 200"


def test_many_slow_clients_do_not_block_others(watch_daemon: WatchDaemon) -> None:
    """200 clients that write a byte at a time and 40 that read nothing: the owner is answered."""
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
        # Slow clients are disconnected ten seconds after they connected.
        for client in crowd:
            client.settimeout(15)
            with suppress(ConnectionError):
                assert client.recv(10) == b""


@pytest.mark.parametrize("wrong_length", [False, True], ids=["chunked", "wrong content length"])
def test_endless_body_takes_no_memory(watch_daemon: WatchDaemon, wrong_length: bool) -> None:
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
        client.sendall(head(10 if wrong_length else None))
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
