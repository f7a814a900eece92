"""kill -9 of the daemon at random moments: acknowledged data is kept, and it starts again."""

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
"""CPU seconds until it answers, since wall-clock time depends on other load."""
CHECKED = 10
"""Of each kind, how many of the older acknowledgements are checked after each kill."""
KEPT_FILES = 200
IN_A_BATCH = 200


class Acknowledged:
    """What the daemon acknowledged, by kind: ids and the expected contents."""

    def __init__(self) -> None:
        self.responses: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.deleted: list[str] = []
        self.batches: list[str] = []
        self.finished: list[str] = []


class PullSequence:
    """Downloads the server's models in turn, each over as many daemon lives as it takes."""

    def __init__(self, server: ModelServer, store: Path) -> None:
        self._server = server
        self._store = store
        self._current, self._next = server.models
        self._is_acknowledged = False
        self._kept = 0
        self.may_fail = False
        """While the disk is full."""
        self.interrupted = 0
        """The number of kills during a download."""
        self.finished = 0

    def fetch(self, client: httpx.Client) -> None:
        """Start or continue the download of the current model."""
        request_body = {"model": self._current}
        with client.stream("POST", "/ingle/v1/pull", json=request_body, timeout=60) as answer:
            for line in answer.iter_lines():
                assert line != "event: error" or self.may_fail
                self._is_acknowledged = self._is_acknowledged or line == "event: done"

    def killed(self) -> None:
        """Note how much has arrived; this download must have resumed where the last one ended."""
        assert self._server.starts[:1] in ([], [self._kept])
        self._server.starts.clear()
        folder, file = self._place()
        partial = folder / f"{file}.partial"
        self._kept = partial.stat().st_size if partial.exists() else 0
        self.interrupted += 0 < self._kept < len(self._server.models[self._current])

    def check(self, client: httpx.Client) -> None:
        """Only complete models are installed; an acknowledged one is deleted for the next."""
        entries = client.get("/ingle/v1/models").json()["models"]
        here = {entry["name"]: entry["path"] for entry in entries if entry["installed"]}
        for name in here.keys() & self._server.models.keys():
            assert Path(here[name]).read_bytes() == self._server.models[name]
        if self._is_acknowledged:
            assert self._current in here
            folder, file = self._place()
            assert {path.name for path in folder.iterdir()} == {"manifest.json", file}
            assert client.delete(f"/ingle/v1/models/{self._current}").status_code == 200
            self._current, self._next = self._next, self._current
            self._is_acknowledged, self._kept = False, 0
            self.finished += 1

    def _place(self) -> tuple[Path, str]:
        name, _, tag = self._current.partition(":")
        return self._store / name / tag, f"{name}-{tag}.gguf"


class DaemonClients:
    """Clients of one daemon process, which end with it."""

    def __init__(
        self, daemon: FaultDaemon, acknowledged: Acknowledged, pulls: PullSequence, seed: int
    ) -> None:
        self._daemon = daemon
        self._known = acknowledged
        self._rng = random.Random(seed)
        self._ended = threading.Event()
        actions: list[Callable[[httpx.Client], None]] = [
            self._respond,
            self._respond_as_stream,
            self._upload,
            self._chat,
        ]
        self._threads = [
            threading.Thread(target=self._repeat_action, args=(action,)) for action in actions
        ]
        self._threads.append(threading.Thread(target=self._repeat_action, args=(pulls.fetch, 1)))
        if len(acknowledged.batches) < 2:
            self._threads.append(
                threading.Thread(target=self._repeat_action, args=(self._batch, 1))
            )

    def run(self, seconds: float, *, early: bool) -> None:
        """Kill the daemon some seconds after its first response, or after its start if `early`."""
        before = len(self._known.responses)
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + 120
        while not early and len(self._known.responses) == before and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(seconds)
        self._daemon.kill()
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _repeat_action(self, action: Callable[[httpx.Client], None], times: int = 10_000) -> None:
        transport = httpx.HTTPTransport(uds=str(self._daemon.socket))
        with httpx.Client(base_url="http://ingle", transport=transport, timeout=120) as client:
            for _ in range(times):
                if self._ended.is_set():
                    return
                try:
                    action(client)
                except (httpx.TransportError, httpx.StreamError):
                    return

    def _respond(self, client: httpx.Client) -> None:
        request_body = {"model": "echo:1", "input": f"Question {self._rng.random()}"}
        answer = client.post("/v1/responses", json=request_body)
        if answer.status_code == 200:
            self._known.responses[answer.json()["id"]] = request_body["input"]

    def _respond_as_stream(self, client: httpx.Client) -> None:
        request_body = {"model": "echo:1", "input": f"Question {self._rng.random()}"}
        with client.stream(
            "POST", "/v1/responses", json={**request_body, "stream": True}
        ) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {") and '"type":"response.completed"' in line:
                    self._known.responses[json.loads(line[6:])["response"]["id"]] = request_body[
                        "input"
                    ]

    def _upload(self, client: httpx.Client) -> None:
        content = self._rng.randbytes(self._rng.randint(1, 100_000))
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
        request_body = {"model": "echo:1", "prompt": "Hello", "max_tokens": 40}
        started = client.post("/ingle/v1/generations", json=request_body).json()
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
        stored = client.post("/v1/files", files=form, data={"purpose": "batch"})
        if stored.status_code != 200:
            return
        request_body = {"input_file_id": stored.json()["id"], "endpoint": "/v1/completions"}
        answer = client.post("/v1/batches", json=request_body)
        if answer.status_code == 200:
            self._known.batches.append(answer.json()["id"])


def check(daemon: FaultDaemon, known: Acknowledged, rng: random.Random) -> None:
    """Check the newest of everything, and a sample of what is older."""
    for response_id in chosen(list(known.responses), rng):
        items = daemon.http.get(f"/v1/responses/{response_id}/input_items").json()["data"]
        assert items[0]["content"][0]["text"] == known.responses[response_id]
        response = daemon.http.get(f"/v1/responses/{response_id}").json()
        assert response["status"] == "completed"
    for file_id in chosen(list(known.files), rng):
        content = daemon.http.get(f"/v1/files/{file_id}/content").content
        assert hashlib.sha256(content).hexdigest() == known.files[file_id]
    for file_id in known.deleted[-CHECKED:]:
        assert daemon.http.get(f"/v1/files/{file_id}").status_code == 404
    for batch_id in [*known.batches, *known.finished[-1:]]:
        check_batch(daemon, batch_id)
    for batch_id in [entry for entry in known.batches if status_of(daemon, entry) == "completed"]:
        known.batches.remove(batch_id)
        known.finished.append(batch_id)


def check_batch(daemon: FaultDaemon, batch_id: str) -> None:
    """The batch runs, or has one result for each request."""
    batch = daemon.http.get(f"/v1/batches/{batch_id}").json()
    assert batch["status"] in ("validating", "in_progress", "finalizing", "completed")
    if batch["status"] == "completed":
        counts = {"total": IN_A_BATCH, "completed": IN_A_BATCH, "failed": 0}
        assert batch["request_counts"] == counts
        output = daemon.http.get(f"/v1/files/{batch['output_file_id']}/content").text
        ids = [json.loads(line)["custom_id"] for line in output.splitlines()]
        assert sorted(ids) == sorted(f"r{n}" for n in range(IN_A_BATCH))


def chosen(ids: list[str], rng: random.Random) -> list[str]:
    """The newest ids, and a sample of the others."""
    return [*ids[-CHECKED:], *rng.sample(ids[:-CHECKED], min(CHECKED, len(ids[:-CHECKED])))]


def status_of(daemon: FaultDaemon, batch_id: str) -> str:
    return daemon.http.get(f"/v1/batches/{batch_id}").json()["status"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, 1000])
def test_random_kills_lose_no_acknowledged_data(
    make_daemon: MakeDaemon,
    models: ModelServer,
    tmp_path: Path,
    kills: int,
    tries: Callable[[int], None],
) -> None:
    """A third of the kills happen during startup, and a third as soon as the daemon listens."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng, known = random.Random(seed), Acknowledged()
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(models.catalog())
    daemon = make_daemon(
        {"reply": "An answer.", "step_seconds": 0.001},
        environ={"INGLE_TEST_CATALOG": str(catalog)},
    )
    pulls, before_socket = PullSequence(models, daemon.home / "models"), 0
    daemon.kill()
    starts, work = [daemon.restart()], [daemon.processor_seconds()]
    for number in range(kills):
        if number % 3 == 2:
            daemon.kill()
            usual = statistics.median(starts)
            before_socket += not daemon.start_and_kill(rng.uniform(0.02, 1.2 * usual))
        else:
            clients = DaemonClients(daemon, known, pulls, rng.getrandbits(32))
            clients.run(rng.uniform(0.0, 0.5), early=number % 3 == 0)
            pulls.killed()
        starts.append(daemon.restart())
        work.append(daemon.processor_seconds())
        check(daemon, known, rng)
        pulls.check(daemon.http)
        if number % 20 == 19:
            print(report(number + 1, starts, known, pulls, before_socket), flush=True)
    assert statistics.median(work) < STARTS_WITHIN
    if kills > 100:
        assert pulls.interrupted > kills / 20
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
    tries(kills)


def report(
    kills: int, starts: list[float], known: Acknowledged, pulls: PullSequence, before_socket: int
) -> str:
    ordered = sorted(starts)
    return (
        f"{kills} kills, {before_socket} before the socket, {pulls.interrupted} in a download; "
        f"starts: median {statistics.median(ordered):.2f} s, "
        f"95 % within {ordered[int(len(ordered) * 0.95)]:.2f} s, longest {ordered[-1]:.2f} s; "
        f"{len(known.responses)} responses, {len(known.files)} files and {len(known.deleted)} "
        f"deleted ones, {len(known.finished)} batches, {pulls.finished} models; nothing was lost"
    )
