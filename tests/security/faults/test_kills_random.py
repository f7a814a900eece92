"""kill -9 of the daemon at random moments: what was acknowledged is there, and it starts again."""

from __future__ import annotations

import hashlib
import json
import random
import statistics
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from .conftest import FaultDaemon, MakeDaemon

STARTS_WITHIN = 2.0
"""Seconds, as the middle of many starts on a machine that has nothing else to do."""
CHECKED = 20
"""Of each kind, how many of the older acknowledgements are looked at after each kill."""


class Acknowledged:
    """What the daemon said it has, by kind: ids and what they have to hold."""

    def __init__(self) -> None:
        self.responses: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.batches: dict[str, int] = {}


class Life:
    """Clients of one life of the daemon, which end with it."""

    def __init__(self, daemon: FaultDaemon, acknowledged: Acknowledged, seed: int) -> None:
        self._daemon = daemon
        self._known = acknowledged
        self._chance = random.Random(seed)
        self._over = threading.Event()
        ways: list[Callable[[httpx.Client], None]] = [
            self._respond,
            self._respond_as_stream,
            self._upload,
            self._chat,
        ]
        self._threads = [threading.Thread(target=self._repeat, args=(way,)) for way in ways]
        if len(acknowledged.batches) < 3:
            self._threads.append(threading.Thread(target=self._repeat, args=(self._batch, 1)))

    def run(self, seconds: float, *, early: bool) -> None:
        """Kill the daemon under its clients so long after its first response, or its start."""
        before = len(self._known.responses)
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + 20
        while not early and len(self._known.responses) == before and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(seconds)
        self._daemon.kill()
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, way: Callable[[httpx.Client], None], times: int = 10_000) -> None:
        transport = httpx.HTTPTransport(uds=str(self._daemon.socket))
        with httpx.Client(base_url="http://ingle", transport=transport, timeout=20) as client:
            for _ in range(times):
                if self._over.is_set():
                    return
                try:
                    way(client)
                except (httpx.TransportError, httpx.StreamError):
                    return

    def _respond(self, client: httpx.Client) -> None:
        asked = {"model": "echo:1", "input": f"Question {self._chance.random()}"}
        answer = client.post("/v1/responses", json=asked)
        if answer.status_code == 200:
            self._known.responses[answer.json()["id"]] = asked["input"]

    def _respond_as_stream(self, client: httpx.Client) -> None:
        asked = {"model": "echo:1", "input": f"Question {self._chance.random()}"}
        with client.stream("POST", "/v1/responses", json={**asked, "stream": True}) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {") and '"type":"response.completed"' in line:
                    self._known.responses[json.loads(line[6:])["response"]["id"]] = asked["input"]

    def _upload(self, client: httpx.Client) -> None:
        content = self._chance.randbytes(self._chance.randint(1, 100_000))
        form: Any = {"file": ("f", content)}
        answer = client.post("/v1/files", files=form, data={"purpose": "user_data"})
        if answer.status_code == 200:
            self._known.files[answer.json()["id"]] = hashlib.sha256(content).hexdigest()

    def _chat(self, client: httpx.Client) -> None:
        asked = {"model": "echo:1", "prompt": "Hello", "max_tokens": 40}
        started = client.post("/ingle/v1/generations", json=asked).json()
        client.get(f"/ingle/v1/generations/{started['id']}/events")

    def _batch(self, client: httpx.Client) -> None:
        count = 200
        body = {"model": "echo:1", "prompt": "Hello"}
        lines = [
            json.dumps(
                {"custom_id": f"r{n}", "method": "POST", "url": "/v1/completions", "body": body}
            )
            for n in range(count)
        ]
        form: Any = {"file": ("in.jsonl", "\n".join(lines).encode())}
        stored = client.post("/v1/files", files=form, data={"purpose": "batch"}).json()
        asked = {"input_file_id": stored["id"], "endpoint": "/v1/completions"}
        answer = client.post("/v1/batches", json=asked)
        if answer.status_code == 200:
            self._known.batches[answer.json()["id"]] = count


def check(daemon: FaultDaemon, known: Acknowledged, chance: random.Random) -> None:
    """The newest of everything, and some of what is older."""
    for response_id in chosen(known.responses, chance):
        items = daemon.http.get(f"/v1/responses/{response_id}/input_items").json()["data"]
        assert items[0]["content"][0]["text"] == known.responses[response_id]
        response = daemon.http.get(f"/v1/responses/{response_id}").json()
        assert response["status"] == "completed"
    for file_id in chosen(known.files, chance):
        content = daemon.http.get(f"/v1/files/{file_id}/content").content
        assert hashlib.sha256(content).hexdigest() == known.files[file_id]
    for batch_id in known.batches:
        status = daemon.http.get(f"/v1/batches/{batch_id}").json()["status"]
        assert status in ("validating", "in_progress", "finalizing", "completed")


def chosen(known: dict[str, Any], chance: random.Random) -> list[str]:
    """The newest twenty, and as many of the others."""
    ids = list(known)
    return [*ids[-CHECKED:], *chance.sample(ids[:-CHECKED], min(CHECKED, len(ids[:-CHECKED])))]


@pytest.mark.parametrize("kills", [3, pytest.param(1000, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost(make_daemon: MakeDaemon, kills: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, known = random.Random(seed), Acknowledged()
    daemon = make_daemon({"reply": "An answer.", "step_seconds": 0.001})
    starts: list[float] = []
    for number in range(kills):
        life = Life(daemon, known, chance.getrandbits(32))
        life.run(chance.uniform(0.0, 0.5), early=number % 3 == 0)
        starts.append(daemon.restart())
        check(daemon, known, chance)
    print(f"starts: median {statistics.median(starts):.2f} s, longest {max(starts):.2f} s")
    if kills > 100:
        assert statistics.median(starts) < STARTS_WITHIN
    for batch_id, count in known.batches.items():
        daemon.until(lambda name=batch_id: status_of(daemon, name) == "completed", 120)
        batch = daemon.http.get(f"/v1/batches/{batch_id}").json()
        assert batch["request_counts"] == {"total": count, "completed": count, "failed": 0}
        output = daemon.http.get(f"/v1/files/{batch['output_file_id']}/content").text
        ids = [json.loads(line)["custom_id"] for line in output.splitlines()]
        assert sorted(ids) == sorted(f"r{n}" for n in range(count))
    assert "Traceback" not in daemon.log.read_text()
    left = list((daemon.home / "state").rglob(".*"))
    print(f"{len(known.responses)} responses, {len(known.files)} files, {len(left)} bits left over")


def status_of(daemon: FaultDaemon, batch_id: str) -> str:
    return daemon.http.get(f"/v1/batches/{batch_id}").json()["status"]
