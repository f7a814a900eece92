"""Client disconnects at any moment, and thousands of slow clients: their resources are freed."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from .conftest import FaultDaemon, MakeDaemon

BODY = b'{"model": "echo:1", "prompt": "Hello", "stream": true, "max_tokens": 400}'
REQUEST = (
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % len(BODY)
)


def connect(daemon: FaultDaemon) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    try:
        client.connect(str(daemon.socket))
    except OSError:
        client.close()
        raise
    return client


def complete(daemon: FaultDaemon) -> str:
    body = {"model": "echo:1", "prompt": "Hello", "max_tokens": 4}
    return daemon.http.post("/v1/completions", json=body).json()["choices"][0]["text"]


def busy(daemon: FaultDaemon) -> int:
    return sum(model["running"] + model["waiting"] for model in daemon.models())


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_disconnect_at_any_moment_frees_all_resources(
    make_daemon: MakeDaemon, count: int, tries: Callable[[int], None]
) -> None:
    daemon = make_daemon({"reply": "word " * 80, "step_seconds": 0.005})
    assert complete(daemon) == "word"
    before, rng = daemon.descriptors(), random.Random(7)
    for _ in range(count):
        with connect(daemon) as client:
            client.sendall((REQUEST + BODY)[: rng.choice([7, len(REQUEST) + 9, 10_000])])
            if rng.random() < 0.7:
                time.sleep(rng.random() * 0.03)
    daemon.until(lambda: busy(daemon) == 0)
    daemon.until(lambda: daemon.descriptors() <= before)
    assert complete(daemon) == "word"
    assert "Traceback" not in daemon.log.read_text()
    tries(count)


@pytest.mark.slow  # two hundred are in tests/security/test_many_slow_clients.py
def test_daemon_recovers_from_thousands_of_slow_clients(
    make_daemon: MakeDaemon, tries: Callable[[int], None]
) -> None:
    daemon = make_daemon({"reply": "Here."})
    before = daemon.descriptors()
    connections: list[socket.socket] = []
    try:
        for _ in range(3000):
            with suppress(OSError):  # refused, since there are too many
                connections.append(connect(daemon))
                connections[-1].sendall(REQUEST[:30])
            if len(connections) % 50 == 0:
                assert psutil.Process(daemon.process.pid).status() != psutil.STATUS_ZOMBIE
        used = sum(psutil.Process(daemon.process.pid).cpu_times()[:2])
        time.sleep(1)
        assert sum(psutil.Process(daemon.process.pid).cpu_times()[:2]) - used < 0.5
    finally:
        for client in connections:
            client.close()
    daemon.until(lambda: daemon.descriptors() <= before + 1, 20)
    assert complete(daemon) == "Here"
    tries(3000)
