"""Measures what a streamed token costs the daemon and the worker's Python, without computing it.

A script replaces the model, so that only the path of an event is measured: worker, pipe, daemon,
socket.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from machine import median, save

from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import LoadPlan
from ingle.daemon.server import daemon_server
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.manifest import Manifest, write_manifest
from ingle.models.metadata.stored_model import StoredModel

MODEL = "scripted:1"
STREAMS = (1, 4, 32)
CONTEXT = 2048
REQUEST = (
    b"POST %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


@dataclass(frozen=True)
class Wire:
    """How one protocol asks for a stream of so many tokens, and how it counts them at the end."""

    path: str
    limit: Callable[[int], dict[str, Any]]
    counted: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])

    def request(self, tokens: int) -> bytes:
        """Return the whole request."""
        conversation = {"messages": [{"role": "user", "content": "Go on."}]}
        fields = {"model": MODEL, "stream": True, **(self.fields or conversation)}
        body = json.dumps(fields | self.limit(tokens)).encode()
        return REQUEST % (self.path.encode(), len(body)) + body


USAGE = {"stream_options": {"include_usage": True}}
WIRES = {
    "openai chat": Wire(
        "/v1/chat/completions", lambda n: {"max_tokens": n} | USAGE, '"completion_tokens":%d'
    ),
    "openai completions": Wire(
        "/v1/completions",
        lambda n: {"max_tokens": n} | USAGE,
        '"completion_tokens":%d',
        {"prompt": "Go on."},
    ),
    "openai responses": Wire(
        "/v1/responses",
        lambda n: {"max_output_tokens": n},
        '"output_tokens":%d',
        {"input": "Go on.", "store": False},
    ),
    "anthropic messages": Wire("/v1/messages", lambda n: {"max_tokens": n}, '"output_tokens":%d'),
    "ollama chat": Wire("/api/chat", lambda n: {"options": {"num_predict": n}}, '"eval_count":%d'),
    "llama.cpp completion": Wire(
        "/completion", lambda n: {"n_predict": n}, '"tokens_predicted":%d', {"prompt": "Go on."}
    ),
}


class ScriptedPreparer:
    """Loads every model as the scripted engine, which answers one letter a token."""

    step_seconds = 0.0

    def __init__(self, *_: object, **__: object) -> None:
        """Ignore the arguments of a `ModelLoadPlanner`."""

    def __call__(
        self, model: StoredModel, options: LoadOptions, *, available: MemoryNeeds
    ) -> LoadPlan:
        script = {"reply": "x" * CONTEXT, "step_seconds": self.step_seconds}
        spec = LoadSpec(
            engine="scripted",
            path=str(model.path),
            context=CONTEXT,
            slots=max(STREAMS),
            kv_capacity=CONTEXT * max(STREAMS),
            script=json.dumps(script),
        )
        return LoadPlan(spec, MemoryNeeds(2**20))


def serve(step_seconds: float) -> None:
    """Be a daemon like any other, but for the one model it has."""
    paths = find_paths(os.environ)
    paths.make_private()
    folder = paths.models / Path(*MODEL.split(":"))
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    manifest = Manifest(
        name=MODEL,
        file="model.gguf",
        size=4,
        sha256="0" * 64,
        licence="none",
        description="A script.",
        parameters=1,
        quantization="none",
        architecture="none",
        context=CONTEXT,
        chat=True,
        source="none",
    )
    write_manifest(folder, manifest)
    ScriptedPreparer.step_seconds = step_seconds
    daemon_server.build_services = partial(  # pyright: ignore[reportAttributeAccessIssue]
        daemon_server.build_services, make_preparer=ScriptedPreparer
    )
    daemon_server.run(Config(paths=paths, port=-1, log_level="warning"))


async def stream(socket: Path, wire: Wire, tokens: int) -> None:
    """One streamed answer of so many tokens, read to its end."""
    reader, writer = await asyncio.open_unix_connection(str(socket))
    writer.write(wire.request(tokens))
    tail = b""
    while chunk := await reader.read(2**16):
        tail = (tail + chunk)[-8000:]
    writer.close()
    if (wire.counted % tokens).encode() not in tail:
        sys.exit(f"expected {tokens} tokens of {wire.path}, got {tail!r}")


async def streams(socket: Path, wire: Wire, count: int, tokens: int) -> None:
    """So many of them at once."""
    await asyncio.gather(*(stream(socket, wire, tokens) for _ in range(count)))


def seconds_computed(process: psutil.Process) -> float:
    """CPU time of one process so far."""
    if sys.platform == "linux":
        # The clock of clock_getcpuclockid(3): nanoseconds, while psutil has hundredths of a second.
        return time.clock_gettime((~process.pid << 3) | 2)
    times = process.cpu_times()
    return times.user + times.system


def switches(process: psutil.Process) -> int:
    """How often it went to sleep so far, and so was woken up."""
    return process.num_ctx_switches().voluntary


def worker_of(daemon: psutil.Process) -> psutil.Process:
    """The daemon's one worker."""
    (worker,) = (c for c in daemon.children() if "ingle.backends.worker" in c.cmdline())
    return worker


def measure(
    socket: Path, daemon: psutil.Process, wire: Wire, count: int, tokens: int
) -> dict[str, float]:
    """Microseconds of CPU an event, and wake-ups of the daemon a step, with so many streams."""
    worker = worker_of(daemon)
    before = seconds_computed(daemon), seconds_computed(worker), switches(daemon)
    start = time.perf_counter()
    asyncio.run(streams(socket, wire, count, tokens))
    wall = time.perf_counter() - start
    events = count * tokens
    return {
        "daemon_us": 1e6 * (seconds_computed(daemon) - before[0]) / events,
        "worker_us": 1e6 * (seconds_computed(worker) - before[1]) / events,
        "wakeups_a_step": (switches(daemon) - before[2]) / tokens,
        "events_per_second": events / wall,
    }


def main() -> None:
    """Measure each protocol with one and several streams; print; with --save write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=800, help="of each stream")
    parser.add_argument("--step-seconds", type=float, default=0.005)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.step_seconds)
        return
    figures = measure_all(arguments.rounds, arguments.tokens, arguments.step_seconds)
    for name, by_count in figures.items():
        for count, figure in by_count.items():
            told = " ".join(f"{what} {value:9.2f}" for what, value in figure.items())
            print(f"{name:20} {count:>3} streams {told}")
    if arguments.save:
        step_seconds = arguments.step_seconds
        print(save("event_cost", {"step_seconds": step_seconds, "protocols": figures}))


def measure_all(
    rounds: int, tokens: int, step_seconds: float
) -> dict[str, dict[str, dict[str, float]]]:
    """The medians of all rounds, by protocol and number of streams."""
    results: dict[tuple[str, int], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "INGLE_HOME": home}
        step = f"--step-seconds={step_seconds}"
        child = subprocess.Popen([sys.executable, __file__, "--serve", step], env=environment)
        socket = find_paths(environment).socket
        try:
            while not socket.exists():
                time.sleep(0.01)
            time.sleep(0.5)  # until it listens
            for wire in WIRES.values():
                asyncio.run(streams(socket, wire, max(STREAMS), 50))
            daemon = psutil.Process(child.pid)
            for _ in range(rounds):
                for name, wire in WIRES.items():
                    for count in STREAMS:
                        figure = measure(socket, daemon, wire, count, tokens)
                        results.setdefault((name, count), []).append(figure)
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait()
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for (name, count), all_rounds in results.items():
        figures.setdefault(name, {})[str(count)] = {
            what: round(median([figure[what] for figure in all_rounds]), 2)
            for what in all_rounds[0]
        }
    return figures


if __name__ == "__main__":
    main()
