"""Measures what a listener of gauges and pages costs the daemon and the worker.

CPU time of both with and without a listener of `GET /ingle/v1/events?pages=`, at rest and while a
real model answers; and the time of a page map alone, for caches of common sizes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import msgspec
import numpy as np
import psutil
from event_cost import seconds_computed, worker_of
from machine import median, save

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.kv.cell_cache import CellCache
from ingle.backends.engine.kv.paged_cache import PagedCache
from ingle.backends.engine.kv_cache import KVCache
from ingle.backends.engine.sequence import Sequence

_INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
_SETTLING = 3.0


class Cells:
    """As much of a runner as the book of a cache of cells asks for."""

    can_fork = True
    kv_capacity = context = 8192
    slots = 8
    cache_slots = 12

    def release(self, slot: int) -> None:
        """Do nothing."""

    def fork(self, *_: object) -> None:
        """Do nothing."""


class Pages:
    """As much of a runner as the book of a pool of pages asks for."""

    num_blocks = 4096
    block_size = 16
    context = num_blocks * block_size
    slots = 8

    def copy_page(self, *_: object) -> None:
        """Do nothing."""


def filled(cache: KVCache) -> KVCache:
    """A cache in which eight chats have a prefix in common; half of them run."""
    chance = random.Random(1)
    length = cache.capacity // 8 - 300
    for number in range(8):
        own = [chance.randrange(1000) for _ in range(length - 256)]
        tokens = [*range(256), *own]
        label = f"{number:032x}"
        sequence = Sequence("r", 0, tokens, SamplingParams(), conversation=label)
        cache.open(sequence, cache.match(np.array(tokens, np.int32)))
        batch = Batch()
        batch.add(sequence, sequence.num_pending)
        cache.reserve(batch)
        cache.grow(sequence, sequence.num_pending)
        if number % 2:
            cache.keep(sequence)
    return cache


def map_cost(cache: KVCache, rounds: int = 200) -> dict[str, float]:
    """Microseconds of a map and of its encoding, and bytes of the event."""
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        page_map = cache.page_map()
        times.append(time.perf_counter() - began)
    page_map = cache.page_map()
    began = time.perf_counter()
    for _ in range(rounds):
        msgspec.msgpack.encode(page_map)
    encoding = (time.perf_counter() - began) / rounds
    return {
        "map_us": round(1e6 * median(times), 1),
        "encode_us": round(1e6 * encoding, 1),
        "bytes": len(msgspec.json.encode(page_map)),
    }


class Daemon:
    """A daemon with a home of its own, and one loaded model."""

    def __init__(self, model: Path, home: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        environment = {**os.environ, "INGLE_HOME": home, "INGLE_SPECULATION": "off"}
        command = [_INGLE, "serve", "--port", str(self.port)]
        self.child = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        self.process = psutil.Process(self.child.pid)
        self.model = str(model)
        while not self._listens():
            time.sleep(0.02)
        self.post("/ingle/v1/load", {"model": self.model, "keep_alive": -1})
        self.worker = worker_of(self.process)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def open(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        """Send one request; the answer may be a stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request(method, path, json.dumps(body) if body is not None else None)
        return connection.getresponse()

    def post(self, path: str, body: object) -> Any:
        """The answer in one piece."""
        return json.load(self.open("POST", path, body))

    @property
    def written(self) -> int:
        """Tokens generated so far."""
        (model,) = json.load(self.open("GET", "/ingle/v1/status"))["models"]
        return model["completion_tokens_total"]

    @contextmanager
    def answering(self) -> Generator[None]:
        """One answer runs for as long as the context lasts."""
        body = {
            "model": self.model,
            "prompt": "Once upon a time",
            "max_tokens": 7000,
            "stream": True,
            "ignore_eos": True,
            "ingle": {"private": True},  # nothing is saved while it is at rest again
        }
        answer = self.open("POST", "/v1/completions", body)
        threading.Thread(target=read_all, args=(answer,), daemon=True).start()
        time.sleep(_SETTLING)
        try:
            yield
        finally:
            shut(answer)
            time.sleep(1)

    @contextmanager
    def watched(self) -> Generator[Counter[str]]:
        """Somebody listens to gauges and pages; counts events by name, and all bytes."""
        seen: Counter[str] = Counter()
        stream = self.open("GET", f"/ingle/v1/events?pages={quote(self.model)}")
        threading.Thread(target=read_all, args=(stream, seen), daemon=True).start()
        time.sleep(_SETTLING)
        seen.clear()
        try:
            yield seen
        finally:
            shut(stream)

    def stop(self) -> None:
        """End it."""
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()


def read_all(stream: http.client.HTTPResponse, seen: Counter[str] | None = None) -> None:
    """Read until the end, or until it is closed."""
    try:
        while line := stream.readline():
            if seen is not None:
                seen["bytes"] += len(line)
                if line.startswith(b"event: "):
                    seen[line[7:].strip().decode()] += 1
    except (OSError, ValueError, http.client.HTTPException):
        return


def shut(stream: http.client.HTTPResponse) -> None:
    """Break the connection, whoever reads from it."""
    raw = cast("Any", stream.fp).raw
    raw._sock.shutdown(socket.SHUT_RDWR)


def measure(daemon: Daemon, seconds: float, seen: Counter[str] | None) -> dict[str, float]:
    """CPU of daemon and worker in percent of one core over so many seconds."""
    processes = {"daemon": daemon.process, "worker": daemon.worker}
    written = daemon.written
    before = {name: seconds_computed(process) for name, process in processes.items()}
    began = time.perf_counter()
    time.sleep(seconds)
    wall = time.perf_counter() - began
    figures = {
        f"{name}_percent": 100 * (seconds_computed(process) - before[name]) / wall
        for name, process in processes.items()
    }
    figures["tokens_per_second"] = (daemon.written - written) / wall
    for name, count in (seen or {}).items():
        figures[f"{name}_per_second"] = count / wall
    return figures


def measure_all(daemon: Daemon, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Return medians of all rounds, by activity."""
    results: dict[str, list[dict[str, float]]] = {}

    def note(name: str, figures: dict[str, float]) -> None:
        results.setdefault(name, []).append(figures)

    for _ in range(rounds):
        note("idle", measure(daemon, seconds, None))
        with daemon.watched() as seen:
            note("idle, watched", measure(daemon, seconds, seen))
        # Two answers, not one: a token costs more the further an answer has come.
        with daemon.answering():
            time.sleep(_SETTLING)
            note("answering", measure(daemon, seconds, None))
        with daemon.answering(), daemon.watched() as seen:
            note("answering, watched", measure(daemon, seconds, seen))
    return {
        name: {
            what: round(median([figures.get(what, 0.0) for figures in all_rounds]), 3)
            for what in all_rounds[-1]
        }
        for name, all_rounds in results.items()
    }


def main() -> None:
    """Measure and print; with --save write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    maps = {
        "8192 cells": map_cost(filled(CellCache(cast("Any", Cells())))),
        "4096 pages": map_cost(filled(PagedCache(cast("Any", Pages())))),
    }
    with tempfile.TemporaryDirectory() as home:
        daemon = Daemon(arguments.model, home)
        try:
            streams = measure_all(daemon, arguments.rounds, arguments.seconds)
        finally:
            daemon.stop()
    for name, figures in (maps | streams).items():
        told = "  ".join(f"{what} {value:9.2f}" for what, value in figures.items())
        print(f"{name:20} {told}")
    if arguments.save:
        name = arguments.model.name
        print(save("gauges_cost", {"model": name, "maps": maps, "streams": streams}))


if __name__ == "__main__":
    main()
