"""Soak test with sixteen clients and random faults: memory, descriptors, hung answers.

`python bench/soak.py --minutes 60 --save` runs a daemon with a scripted model, or with `--model` a
real one. Meanwhile workers are killed and frozen, clients leave, requests are bad, and the model is
unloaded. It fails if an answer hangs, memory grows by more than 1 MB an hour, descriptors leak, or
the daemon's process changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from machine import save

CLIENTS = 16
HUNG_AFTER = 90.0
SAMPLE_SECONDS = 2.0
RATE = 10.0
"""Requests per second, all clients together.

What is kept for ten minutes grows with it, so it must not depend on the machine's other load.
"""
WARM_SHARE = 0.4
"""Share of the time before memory is measured, so that data kept for ten minutes has reached its
steady state.
"""
MOST_MB_AN_HOUR = 1.0

SERVE = """
import os, sys
from functools import partial
from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.server import daemon_server as server
from ingle.daemon.main import main
from ingle.daemon.load_planning.load_planner import LoadPlan
from ingle.models.fit.memory_needs import MemoryNeeds

class Scripted:
    def __init__(self, config, resolve, **more):
        pass

    def __call__(self, model, options, *, available):
        script = '{"reply": "%s", "step_seconds": 0.004}' % ("word " * 40)
        spec = LoadSpec(
            engine="scripted", path=str(model.path), context=512, slots=16, script=script,
            kv_capacity=16384,
        )
        return LoadPlan(spec, MemoryNeeds(1 << 20))

if os.environ["INGLE_TEST_SOAK"] == "scripted":
    server.build_services = partial(server.build_services, make_preparer=Scripted)
sys.exit(main(["serve", "--port", "-1"]))
"""


@dataclass
class Soak:
    """What happened; times in seconds, memory in MB."""

    seed: int
    model: str
    rate: float
    minutes: float = 0.0
    late: int = 0
    """Requests that could not be asked within a second of their time."""
    answers: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    hung: int = 0
    odd: list[str] = field(default_factory=list[str])
    daemon_survived: bool = False
    megabytes_an_hour: float = 0.0
    resident: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    descriptors_idle: tuple[int, int] = (0, 0)
    zombies: int = 0

    @property
    def passed(self) -> bool:
        """Whether everything is as promised."""
        return (
            self.daemon_survived
            and not self.hung
            and not self.odd
            and not self.zombies
            and self.megabytes_an_hour < MOST_MB_AN_HOUR
            and self.descriptors_idle[1] <= self.descriptors_idle[0]
        )


def client_of(socket: Path) -> httpx.AsyncClient:
    """A client of the daemon, with connections of its own."""
    transport = httpx.AsyncHTTPTransport(uds=str(socket))
    return httpx.AsyncClient(base_url="http://ingle", transport=transport, timeout=HUNG_AFTER)


class Clients:
    """Sends random requests of every kind until it is stopped."""

    def __init__(self, socket: Path, model: str, soak: Soak, chance: random.Random) -> None:
        self._socket = socket
        self._model = model
        self._soak = soak
        self._chance = chance
        self._due = 0.0
        self.stopping = False

    def _client(self) -> httpx.AsyncClient:
        return client_of(self._socket)

    async def begin(self) -> None:
        """Load the model, and all that comes with a first answer."""
        async with self._client() as client:
            await self._whole(client)
        self._due = time.monotonic()

    async def work(self) -> None:
        """One client after another, each with a few requests."""
        ways: list[Callable[[httpx.AsyncClient], Any]] = [
            self._stream,
            self._stream,
            self._whole,
            self._leave,
            self._bad,
            self._generation,
        ]
        while not self.stopping:
            async with self._client() as client:
                for _ in range(self._chance.randint(1, 8)):
                    way = self._chance.choice(ways)
                    try:
                        async with asyncio.timeout(HUNG_AFTER):
                            await way(client)
                    except (TimeoutError, httpx.TimeoutException):
                        self._soak.hung += 1
                        self._soak.odd.append(f"{way.__name__} hung")
                    except httpx.HTTPError as error:
                        self._soak.odd.append(f"{way.__name__}: {error!r}")
                    await self._turn()

    async def _turn(self) -> None:
        """Wait for the next request's time; missed ones are not made up for."""
        now = time.monotonic()
        late = now > self._due + 1
        self._soak.late += late
        self._due = now if late else self._due + 1 / self._soak.rate
        await asyncio.sleep(max(0.0, self._due - now))

    def _chat(self, **more: object) -> dict[str, object]:
        length = self._chance.randint(1, 60)
        words = " ".join(str(self._chance.randint(0, 9)) for _ in range(length))
        messages = [{"role": "user", "content": words}]
        return {"model": self._model, "messages": messages, "max_tokens": 64, **more}

    async def _stream(self, client: httpx.AsyncClient) -> None:
        body = self._chat(stream=True)
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            last = ""
            async for line in answer.aiter_lines():
                last = line or last
        ended = last == "data: [DONE]" or '"error"' in last
        if not ended:
            self._soak.odd.append(f"a stream ended with {last[:80]!r}")
        self._count("stream", answer.status_code if '"error"' not in last else 503)

    async def _whole(self, client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/chat/completions", json=self._chat())
        self._count("whole", answer.status_code)

    async def _leave(self, client: httpx.AsyncClient) -> None:
        body = self._chat(stream=True)
        async with (
            self._client() as own,
            own.stream("POST", "/v1/chat/completions", json=body) as answer,
        ):
            with suppress(StopAsyncIteration):
                lines = answer.aiter_lines()
                for _ in range(self._chance.randint(0, 4)):
                    await anext(lines)
        self._count("left", answer.status_code)

    async def _bad(self, client: httpx.AsyncClient) -> None:
        body = self._chance.choice(
            [b"{", b"\xff\xfe", b"[]", b'{"model": 7}', json.dumps(self._chat(n=-1)).encode()]
        )
        answer = await client.post("/v1/chat/completions", content=body)
        if answer.status_code != 400:
            self._soak.odd.append(f"{body!r} was answered with {answer.status_code}")
        self._count("bad", answer.status_code)

    async def _generation(self, client: httpx.AsyncClient) -> None:
        body = {"model": self._model, "prompt": "Count.", "max_tokens": 32}
        started = await client.post("/ingle/v1/generations", json=body)
        if started.status_code < 300:
            number = started.json()["id"]
            if self._chance.random() < 0.3:
                await client.post(f"/ingle/v1/generations/{number}/cancel")
            else:
                await client.get(f"/ingle/v1/generations/{number}/events")
        self._count("generation", started.status_code)

    def _count(self, kind: str, status: int) -> None:
        self._soak.answers[f"{kind} {status}"] += 1
        if status >= 500 and status != 503:
            self._soak.odd.append(f"{kind} was answered with {status}")


async def disturb(daemon: psutil.Process, socket: Path, soak: Soak, chance: random.Random) -> None:
    """Kill, freeze and unload the model, less often than its quarantine allows."""
    async with client_of(socket) as client:
        while True:
            await asyncio.sleep(chance.uniform(8, 30))
            fault = chance.choice(["KILL", "SEGV", "ABRT", "STOP", "unload", "quarantine"])
            soak.faults[fault] += 1
            if fault == "unload":
                with suppress(httpx.HTTPError):
                    await client.post("/ingle/v1/unload", json={})
                continue
            for _ in range(4 if fault == "quarantine" else 1):
                number = signal.SIGKILL if fault == "quarantine" else signal.Signals[f"SIG{fault}"]
                for worker in daemon.children():
                    with suppress(psutil.NoSuchProcess):
                        worker.send_signal(number)
                await asyncio.sleep(1.5 if fault == "quarantine" else 0)
            if fault == "quarantine":
                await asyncio.sleep(5)
                await client.post("/ingle/v1/unload", json={})


async def sample(daemon: psutil.Process, soak: Soak, began: float) -> None:
    """The daemon's own memory, every few seconds."""
    while True:
        resident = daemon.memory_full_info().uss / 1e6
        soak.resident.append((round(time.monotonic() - began, 1), round(resident, 2)))
        await asyncio.sleep(SAMPLE_SECONDS)


def slope(samples: list[tuple[float, float]]) -> float:
    """MB an hour: a line through the least of each of twenty stretches, after the warm-up."""
    if not samples:
        return 0.0
    start = samples[-1][0] * WARM_SHARE
    late = [one for one in samples if one[0] >= start]
    length = max(1, len(late) // 20)
    least = [min(late[i : i + length], key=lambda one: one[1]) for i in range(0, len(late), length)]
    if len(least) < 3:
        return 0.0
    mean_t = sum(t for t, _ in least) / len(least)
    mean_m = sum(m for _, m in least) / len(least)
    spread = sum((t - mean_t) ** 2 for t, _ in least)
    return 3600 * sum((t - mean_t) * (m - mean_m) for t, m in least) / spread


async def run(options: argparse.Namespace, home: Path) -> Soak:
    """Run the whole soak test."""
    model_name = Path(options.model).name if options.model else "scripted"
    soak = Soak(options.seed, model_name, options.rate)
    chance = random.Random(options.seed)
    process = start(home, scripted=not options.model)
    socket = home / "runtime" / "ingle.sock"
    wait_for(socket)
    daemon, model = psutil.Process(process.pid), options.model or "echo:1"
    clients = Clients(socket, model, soak, chance)
    try:
        await clients.begin()
        before = await idle_descriptors(daemon, socket)
        began = time.monotonic()
        helpers = [
            asyncio.create_task(disturb(daemon, socket, soak, chance)),
            asyncio.create_task(sample(daemon, soak, began)),
        ]
        workers = [asyncio.create_task(clients.work()) for _ in range(CLIENTS)]
        await asyncio.sleep(60 * options.minutes)
        helpers[0].cancel()
        clients.stopping = True
        done, late = await asyncio.wait(workers, timeout=HUNG_AFTER + 10)
        soak.hung += len(late)
        soak.odd += [repr(task.exception()) for task in done if task.exception() is not None]
        helpers[1].cancel()
        soak.minutes = round((time.monotonic() - began) / 60, 1)
        soak.descriptors_idle = before, await idle_descriptors(daemon, socket)
        soak.zombies = sum(
            child.status() == psutil.STATUS_ZOMBIE for child in daemon.children(recursive=True)
        )
        soak.daemon_survived = process.poll() is None
        soak.megabytes_an_hour = round(slope(soak.resident), 2)
    finally:
        process.terminate()
        process.wait(30)
    return soak


async def idle_descriptors(daemon: psutil.Process, socket: Path) -> int:
    """Files the daemon has open once its model is unloaded and every client is gone."""
    async with client_of(socket) as client:
        await client.post("/ingle/v1/unload", json={})
    await asyncio.sleep(3)
    return daemon.num_fds()


def wait_for(socket: Path) -> None:
    """Return once the daemon listens."""
    while not socket.exists():
        time.sleep(0.05)


def start(home: Path, *, scripted: bool) -> subprocess.Popen[bytes]:
    """The daemon; the name of its scripted model is `echo:1`."""
    from ingle.models.metadata.manifest import Manifest, write_manifest

    folder = home / "models" / "echo" / "1"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    write_manifest(
        folder,
        Manifest(
            name="echo:1",
            file="model.gguf",
            size=4,
            sha256="0" * 64,
            licence="",
            description="",
            parameters=1,
            quantization="",
            architecture="llama",
            context=512,
            chat=True,
            source="soak",
        ),
    )
    environ = {
        **os.environ,
        "INGLE_HOME": str(home),
        "INGLE_TEST_SOAK": "scripted" if scripted else "",
    }
    with (home.parent / "soak.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE], env=environ, cwd="/", stderr=log
        )


def main() -> int:
    """Return 0 if all conditions hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=RATE, help="requests a second")
    parser.add_argument("--model", help="a model's file; left out, a scripted one")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--save", action="store_true", help="keep the result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = asyncio.run(run(options, Path(folder) / "home"))
    result: dict[str, object] = {
        **vars(soak),
        "passed": soak.passed,
        "clients": CLIENTS,
        "resident": soak.resident[:: max(1, len(soak.resident) // 200)],
        "odd": soak.odd[:50],
    }
    if options.save:
        save("soak", result)
    print(json.dumps({k: v for k, v in result.items() if k != "resident"}, indent=2))
    return 0 if soak.passed else 1


if __name__ == "__main__":
    sys.exit(main())
