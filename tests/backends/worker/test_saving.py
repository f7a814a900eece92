"""A worker saves its KV cache while idle and before it exits, and a later worker restores it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import ingle.backends.worker.worker_loop
from ingle.backends.base.events import Finished, Started
from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.inbox import Inbox
from ingle.backends.worker.model_loader import load_model
from ingle.backends.worker.worker_protocol import (
    Drain,
    FromWorker,
    GaugesReport,
    Outputs,
    Rejected,
    ToWorker,
    Trim,
)

MakeSpec = Callable[..., LoadSpec]
PROMPT = "The lighthouse keeper counted the ships every evening. " * 8


class Worker:
    """A worker loop in a thread."""

    def __init__(self, spec: LoadSpec) -> None:
        self._inbox: Inbox = queue.SimpleQueue()
        self._sent: queue.Queue[FromWorker] = queue.Queue()
        self.gauges = Gauges()
        self.thread = threading.Thread(target=self._run, args=(spec,))
        self.thread.start()

    def _run(self, spec: LoadSpec) -> None:
        with load_model(spec, self._sent.put, self._inbox) as (loop, _):
            loop.run()

    def send(self, message: ToWorker) -> None:
        self._inbox.put(message)

    def until(self, condition: Callable[[FromWorker], bool]) -> None:
        """Receive messages until one meets the condition."""
        while True:
            message = self._sent.get(timeout=20)
            if isinstance(message, GaugesReport):
                self.gauges = message.gauges
            if condition(message):
                return

    def ask(self, name: str, prompt: str, *, private: bool = False) -> Started:
        """Run one request to completion."""
        events: list[Started] = []

        def ended(message: FromWorker) -> bool:
            if not isinstance(message, Outputs):
                return False
            events.extend(event for event in message.events if isinstance(event, Started))
            return any(isinstance(event, Finished) for event in message.events)

        self.send(GenerateRequest(id=name, prompt=prompt, private=private))
        self.until(ended)
        return events[0]

    def end(self, grace: float = 5.0) -> None:
        self.send(Drain(grace))
        self.thread.join(20)
        assert not self.thread.is_alive()


MakeWorker = Callable[..., Worker]


@contextmanager
def _workers(make_spec: MakeSpec, folder: Path) -> Generator[MakeWorker]:
    workers: list[Worker] = []

    def make(*, disk: int = 2**30, memory: int = 2**30, **script: object) -> Worker:
        store = KVStoreSpec(
            folder=str(folder), model="ab" * 32, disk_bytes=disk, memory_bytes=memory
        )
        spec = msgspec.structs.replace(make_spec(context=1024, **script), kv_store=store)
        workers.append(Worker(spec))
        return workers[-1]

    yield make
    for worker in workers:
        worker.end()


@pytest.fixture
def start(scripted_spec: MakeSpec, tmp_path: Path) -> Generator[MakeWorker]:
    """Return a factory of workers that share a folder."""
    with _workers(scripted_spec, tmp_path / "kv") as make:
        yield make


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("kv/*/*"))


def test_next_worker_restores_the_saved_cache(start: MakeWorker, tmp_path: Path) -> None:
    worker = start()
    assert worker.ask("a", PROMPT).cached_tokens == 0
    worker.end()
    assert files(tmp_path)
    later = start()
    assert later.ask("b", PROMPT + "And then?").cached_tokens >= len(PROMPT) - 32
    later.end()


def test_idle_worker_saves_its_cache(
    start: MakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingle.backends.worker.worker_loop, "_SAVE_AFTER", 0.05)
    worker = start()
    worker.ask("a", PROMPT)
    worker.until(lambda _: worker.gauges.kv_disk_bytes > 0)
    assert worker.gauges.kv_kept > 0, "it stays in the cache as well"
    assert files(tmp_path)


def test_private_request_is_not_saved(start: MakeWorker, tmp_path: Path) -> None:
    worker = start()
    worker.ask("a", PROMPT, private=True)
    worker.end()
    assert files(tmp_path) == []
    later = start()
    assert later.ask("b", PROMPT).cached_tokens == 0


def test_unfinished_answer_is_saved_when_the_grace_period_ends(
    start: MakeWorker, tmp_path: Path
) -> None:
    worker = start(reply="x" * 900, step_seconds=0.02)
    worker.send(GenerateRequest(id="a", prompt=PROMPT))
    worker.until(lambda message: isinstance(message, Outputs))
    began = time.monotonic()
    worker.end(grace=1.0)
    assert time.monotonic() - began < 5, "the worker does not wait for its 18 seconds"
    assert files(tmp_path)
    later = start()
    assert later.ask("b", PROMPT).cached_tokens == len(PROMPT)  # and the token before it


@pytest.mark.slow
def test_drain_without_disk_store_lets_answers_finish(start: MakeWorker) -> None:
    worker = start(disk=0, reply="x" * 100, step_seconds=0.01)
    worker.send(GenerateRequest(id="a", prompt="Hi"))
    worker.until(lambda message: isinstance(message, Outputs))
    worker.send(Drain(0.1))
    worker.until(
        lambda message: (
            isinstance(message, Outputs)
            and any(isinstance(event, Finished) for event in message.events)
        )
    )


def test_draining_worker_rejects_requests(start: MakeWorker) -> None:
    worker = start()
    worker.ask("a", PROMPT)
    worker.send(Drain())
    worker.send(GenerateRequest(id="late", prompt="Hi"))
    worker.until(lambda message: isinstance(message, Rejected) and message.id == "late")


def test_trim_releases_the_memory_tier(start: MakeWorker) -> None:
    worker = start(disk=0)
    for number in range(4):
        worker.ask(str(number), f"{number}" + PROMPT)
    worker.until(lambda _: worker.gauges.kv_memory_bytes > 0)
    worker.send(Trim())
    worker.until(lambda _: worker.gauges.kv_memory_bytes == 0)
