"""A real daemon with three real models and a memory limit for two."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.load_planning.load_planner import ModelLoadPlanner
from ingle.daemon.settings.config import load_config
from ingle.models.catalog import Catalog
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.store.model_store import ModelStore

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(sys.platform == "win32", reason="needs the unix socket"),
]

NAMES = ("a", "b", "c")
CONTEXT = 1024
WORKER = "ingle.backends.worker"


@dataclass
class Watch:
    """Samples the daemon's worker processes in a thread until `ended` is set."""

    daemon: psutil.Process
    max_workers: int = 0
    max_private: int = 0
    seen: set[int] = field(default_factory=set[int])
    ended: threading.Event = field(default_factory=threading.Event)

    def sample(self) -> None:
        while not self.ended.wait(0.005):
            workers = workers_of(self.daemon)
            self.seen |= {worker.pid for worker in workers}
            self.max_workers = max(self.max_workers, len(workers))
            self.max_private = max(self.max_private, sum(map(private, workers)))


def workers_of(daemon: psutil.Process) -> list[psutil.Process]:
    """The living worker processes; a child before exec still has the daemon's command line and is
    ignored."""
    found: list[psutil.Process] = []
    for child in daemon.children():
        try:
            if WORKER in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.Error:
            continue
    return found


def private(process: psutil.Process) -> int:
    """Resident bytes not backed by files."""
    try:
        memory = process.memory_info()
    except psutil.Error:
        return 0
    return memory.rss - memory.shared


def needs_of(path: Path) -> int:
    """The memory that the daemon plans for one of the models."""
    config = load_config({**os.environ, "INGLE_CONTEXT": str(CONTEXT)})
    store = ModelStore(config.paths.models, Catalog.load())
    prepare = ModelLoadPlanner(config, store.resolve)
    model = store.resolve(str(path))
    return prepare(model, LoadOptions(), available=MemoryNeeds(1 << 40)).needs.host


@pytest.fixture
def models(tmp_path: Path, smollm2_path: Path) -> dict[str, Path]:
    """Three links to one file, which count as three models."""
    paths = {name: tmp_path / f"{name}.gguf" for name in NAMES}
    for path in paths.values():
        path.symlink_to(smollm2_path)
    return paths


@pytest.fixture
def limit(models: dict[str, Path]) -> int:
    return int(2.5 * needs_of(models["a"]))


@pytest.fixture
def daemon(ingle_home: Path, limit: int) -> Generator[psutil.Process]:
    environ = {
        **os.environ,
        "INGLE_MEMORY_LIMIT": str(limit),
        "INGLE_CONTEXT": str(CONTEXT),
        "INGLE_KV_DISK": "0",
    }
    code = "import sys; from ingle.daemon.main import main; sys.exit(main(['serve', '--port=-1']))"
    process = subprocess.Popen([sys.executable, "-P", "-c", code], cwd="/", env=environ)
    deadline = time.monotonic() + 120
    while not (ingle_home / "runtime" / "ingle.sock").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield psutil.Process(process.pid)
    process.terminate()
    assert process.wait(20) == 0


@pytest.fixture
def http(ingle_home: Path, daemon: psutil.Process) -> Generator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(ingle_home / "runtime" / "ingle.sock"))
    with httpx.Client(base_url="http://ingle", transport=transport, timeout=120) as client:
        yield client


def generate(http: httpx.Client, path: Path, tokens: int = 4) -> int:
    body = {"model": str(path), "prompt": "One, two,", "max_tokens": tokens, "temperature": 0}
    return http.post("/v1/completions", json=body).status_code


def loaded(http: httpx.Client) -> dict[str, Any]:
    models = http.get("/ingle/v1/status").json()["models"]
    return {Path(model["name"]).stem: model for model in models}


@pytest.mark.slow
def test_least_valuable_model_is_evicted_before_the_next_one_starts(
    http: httpx.Client, models: dict[str, Path], daemon: psutil.Process, limit: int
) -> None:
    for name in "aab":
        assert generate(http, models[name]) == 200
    before = loaded(http)
    assert set(before) == {"a", "b"}
    watch = Watch(daemon)
    with ThreadPoolExecutor() as pool:
        sampling = pool.submit(watch.sample)
        assert generate(http, models["c"]) == 200
        watch.ended.set()
        sampling.result()
    after = loaded(http)
    assert set(after) == {"a", "c"}, "b was used less than a"
    assert watch.max_workers == 2, "there was never a third worker"
    assert watch.max_private <= limit
    assert not psutil.pid_exists(before["b"]["pid"])
    assert after["a"]["pid"] == before["a"]["pid"]
    taken = after["c"]["memory"]
    assert taken["measured"]["host"] + taken["mapped"] > 0
    assert taken["measured"]["host"] <= taken["predicted"]["host"]


@pytest.mark.slow
def test_concurrent_requests_to_all_models_succeed_within_the_limit(
    http: httpx.Client, models: dict[str, Path], daemon: psutil.Process, limit: int
) -> None:
    watch = Watch(daemon)
    with ThreadPoolExecutor(12) as pool:
        sampling = pool.submit(watch.sample)
        futures = [pool.submit(generate, http, models[NAMES[n % 3]], 8) for n in range(18)]
        answers = [future.result() for future in futures]
        watch.ended.set()
        sampling.result()
    assert answers == [200] * 18
    assert watch.max_workers <= 2
    assert watch.max_private <= limit
    assert len(watch.seen) >= 3
    http.post("/ingle/v1/unload", json={})
    assert workers_of(daemon) == []
    assert loaded(http) == {}
