"""kill -9 of the daemon at random moments: what was acknowledged is there, and it starts again."""

from __future__ import annotations

import hashlib
import json
import random
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from .conftest import FaultDaemon, MakeDaemon, ModelServer

STARTS_WITHIN = 2.0
"""Seconds of a processor until it answers: how long that takes depends on what else runs."""
CHECKED = 10
"""Of each kind, how many of the older acknowledgements are looked at after each kill."""
KEPT_FILES = 200
IN_A_BATCH = 200


class Acknowledged:
    """What the daemon said it has, by kind: ids and what they have to hold."""

    def __init__(self) -> None:
        self.responses: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.deleted: list[str] = []
        self.batches: list[str] = []
        self.finished: list[str] = []


class Pulls:
    """The server's models in turn, each over as many lives of the daemon as it takes."""

    def __init__(self, server: ModelServer, store: Path) -> None:
        self._server = server
        self._store = store
        self._wanted, self._next = server.models
        self._is_acknowledged = False
        self._kept = 0
        self.cut = 0
        """How many kills came while a file was on its way."""
        self.finished = 0

    def fetch(self, client: httpx.Client) -> None:
        """Have the daemon fetch what is wanted now, or go on with it."""
        asked = {"model": self._wanted}
        with client.stream("POST", "/ingle/v1/pull", json=asked, timeout=60) as answer:
            for line in answer.iter_lines():
                assert line != "event: error"
                self._is_acknowledged = self._is_acknowledged or line == "event: done"

    def killed(self) -> None:
        """Note what has arrived; this life went on where the last one ended."""
        assert self._server.starts[:1] in ([], [self._kept])
        self._server.starts.clear()
        folder, file = self._place()
        partial = folder / f"{file}.partial"
        self._kept = partial.stat().st_size if partial.exists() else 0
        self.cut += 0 < self._kept < len(self._server.models[self._wanted])

    def check(self, client: httpx.Client) -> None:
        """No model but a whole one; one that was acknowledged makes room for the next."""
        entries = client.get("/ingle/v1/models").json()["models"]
        here = {one["name"]: one["path"] for one in entries if one["installed"]}
        for name in here.keys() & self._server.models.keys():
            assert Path(here[name]).read_bytes() == self._server.models[name]
        if self._is_acknowledged:
            assert self._wanted in here
            folder, file = self._place()
            assert {path.name for path in folder.iterdir()} == {"manifest.json", file}
            assert client.delete(f"/ingle/v1/models/{self._wanted}").status_code == 200
            self._wanted, self._next = self._next, self._wanted
            self._is_acknowledged, self._kept = False, 0
            self.finished += 1

    def _place(self) -> tuple[Path, str]:
        name, _, tag = self._wanted.partition(":")
        return self._store / name / tag, f"{name}-{tag}.gguf"


class Life:
    """Clients of one life of the daemon, which end with it."""

    def __init__(
        self, daemon: FaultDaemon, acknowledged: Acknowledged, pulls: Pulls, seed: int
    ) -> None:
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
        self._threads.append(threading.Thread(target=self._repeat, args=(pulls.fetch, 1)))
        if len(acknowledged.batches) < 2:
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
        if len(self._known.files) > KEPT_FILES:
            oldest = next(iter(self._known.files))
            del self._known.files[oldest]
            if client.delete(f"/v1/files/{oldest}").status_code == 200:
                self._known.deleted.append(oldest)

    def _chat(self, client: httpx.Client) -> None:
        asked = {"model": "echo:1", "prompt": "Hello", "max_tokens": 40}
        started = client.post("/ingle/v1/generations", json=asked).json()
        client.get(f"/ingle/v1/generations/{started['id']}/events")

    def _batch(self, client: httpx.Client) -> None:
        body = {"model": "echo:1", "prompt": "Hello"}
        lines = [
            json.dumps(
                {"custom_id": f"r{n}", "method": "POST", "url": "/v1/completions", "body": body}
            )
            for n in range(IN_A_BATCH)
        ]
        form: Any = {"file": ("in.jsonl", "\n".join(lines).encode())}
        stored = client.post("/v1/files", files=form, data={"purpose": "batch"}).json()
        asked = {"input_file_id": stored["id"], "endpoint": "/v1/completions"}
        answer = client.post("/v1/batches", json=asked)
        if answer.status_code == 200:
            self._known.batches.append(answer.json()["id"])


def check(daemon: FaultDaemon, known: Acknowledged, chance: random.Random) -> None:
    """The newest of everything, and some of what is older."""
    for response_id in chosen(list(known.responses), chance):
        items = daemon.http.get(f"/v1/responses/{response_id}/input_items").json()["data"]
        assert items[0]["content"][0]["text"] == known.responses[response_id]
        response = daemon.http.get(f"/v1/responses/{response_id}").json()
        assert response["status"] == "completed"
    for file_id in chosen(list(known.files), chance):
        content = daemon.http.get(f"/v1/files/{file_id}/content").content
        assert hashlib.sha256(content).hexdigest() == known.files[file_id]
    for file_id in known.deleted[-CHECKED:]:
        assert daemon.http.get(f"/v1/files/{file_id}").status_code == 404
    for batch_id in [*known.batches, *known.finished[-1:]]:
        check_batch(daemon, batch_id)
    for batch_id in [one for one in known.batches if status_of(daemon, one) == "completed"]:
        known.batches.remove(batch_id)
        known.finished.append(batch_id)


def check_batch(daemon: FaultDaemon, batch_id: str) -> None:
    """It runs, or has one answer for each request."""
    batch = daemon.http.get(f"/v1/batches/{batch_id}").json()
    assert batch["status"] in ("validating", "in_progress", "finalizing", "completed")
    if batch["status"] == "completed":
        counts = {"total": IN_A_BATCH, "completed": IN_A_BATCH, "failed": 0}
        assert batch["request_counts"] == counts
        output = daemon.http.get(f"/v1/files/{batch['output_file_id']}/content").text
        ids = [json.loads(line)["custom_id"] for line in output.splitlines()]
        assert sorted(ids) == sorted(f"r{n}" for n in range(IN_A_BATCH))


def chosen(ids: list[str], chance: random.Random) -> list[str]:
    """The newest, and as many of the others."""
    return [*ids[-CHECKED:], *chance.sample(ids[:-CHECKED], min(CHECKED, len(ids[:-CHECKED])))]


def status_of(daemon: FaultDaemon, batch_id: str) -> str:
    return daemon.http.get(f"/v1/batches/{batch_id}").json()["status"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, 1000])
def test_nothing_acknowledged_is_lost(
    make_daemon: MakeDaemon, models: ModelServer, tmp_path: Path, kills: int
) -> None:
    """A third of the kills come while it starts, and a third as soon as it listens."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, known = random.Random(seed), Acknowledged()
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(models.catalog())
    daemon = make_daemon(
        {"reply": "An answer.", "step_seconds": 0.001},
        environ={"INGLE_TEST_CATALOG": str(catalog)},
    )
    pulls, before_socket = Pulls(models, daemon.home / "models"), 0
    daemon.kill()
    starts, work = [daemon.restart()], [daemon.processor_seconds()]
    for number in range(kills):
        if number % 3 == 2:
            daemon.kill()
            usual = statistics.median(starts)
            before_socket += not daemon.start_and_kill(chance.uniform(0.02, 1.2 * usual))
        else:
            life = Life(daemon, known, pulls, chance.getrandbits(32))
            life.run(chance.uniform(0.0, 0.5), early=number % 3 == 0)
            pulls.killed()
        starts.append(daemon.restart())
        work.append(daemon.processor_seconds())
        check(daemon, known, chance)
        pulls.check(daemon.http)
        if number % 20 == 19:
            print(report(number + 1, starts, known, pulls, before_socket), flush=True)
    assert statistics.median(work) < STARTS_WITHIN
    if kills > 100:
        assert pulls.cut > kills / 20
        assert before_socket > kills / 20
    pulls.fetch(daemon.http)
    pulls.check(daemon.http)
    for batch_id in [*known.batches, *known.finished]:
        daemon.until(lambda name=batch_id: status_of(daemon, name) == "completed", 120)
        check_batch(daemon, batch_id)
    for response_id in known.responses:
        assert daemon.http.get(f"/v1/responses/{response_id}").json()["status"] == "completed"
    assert "Traceback" not in daemon.log.read_text()
    print(report(kills, starts, known, pulls, before_socket))
    print(f"processor until it answers: median {statistics.median(work):.2f} s, {max(work):.2f} s")


def report(
    kills: int, starts: list[float], known: Acknowledged, pulls: Pulls, before_socket: int
) -> str:
    ordered = sorted(starts)
    return (
        f"{kills} kills, {before_socket} before the socket, {pulls.cut} in a download; "
        f"starts: median {statistics.median(ordered):.2f} s, "
        f"95 % within {ordered[int(len(ordered) * 0.95)]:.2f} s, longest {ordered[-1]:.2f} s; "
        f"{len(known.responses)} responses, {len(known.files)} files and {len(known.deleted)} "
        f"deleted ones, {len(known.finished)} batches, {pulls.finished} models; nothing was lost"
    )
