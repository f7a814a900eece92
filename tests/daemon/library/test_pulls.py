"""Pulls: one shared download per model, which runs independently of its clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.errors import ShuttingDown
from ingle.daemon.event_hub import EventHub
from ingle.daemon.library.pulls import PullManager
from ingle.models.download.pull_progress import OnPullProgress, PullProgress
from ingle.models.errors import HashMismatch, PullCancelled
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


class SlowPuller:
    """Reports progress of a thousand bytes, then finishes when the test sets `go`."""

    def __init__(
        self, result: StoredModel | Exception, task: ModelTask = ModelTask.GENERATE
    ) -> None:
        self.calls: list[str] = []
        self.go = threading.Event()
        self._result = result
        self._task = task

    def __call__(
        self, reference: str, on_progress: OnPullProgress, cancelled: Callable[[], bool]
    ) -> StoredModel:
        self.calls.append(reference)
        for received in range(0, 1001, 100):
            on_progress(
                PullProgress(
                    model="m:1",
                    status="downloading",
                    received=received,
                    total=1000,
                    task=self._task,
                )
            )
        while not self.go.wait(0.005):
            if cancelled():
                raise PullCancelled("The download was cancelled.")
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def model(folder: Path) -> StoredModel:
    return StoredModel(
        name="m:1",
        path=folder / "m.gguf",
        size=1000,
        sha256="0" * 64,
        licence="MIT",
        description="",
        parameters=1,
        quantization="Q8_0",
        architecture="llama",
        context=512,
        chat=True,
        sampling={},
        source="test",
    )


def manager(puller: SlowPuller, hub: EventHub | None = None) -> PullManager:
    return PullManager(puller, lambda name: name.lower(), hub or EventHub())


async def test_concurrent_pulls_share_one_download(tmp_path: Path) -> None:
    puller = SlowPuller(model(tmp_path))
    pulls = manager(puller)
    first, second = pulls.join("M"), pulls.join("m")
    assert first is second
    assert pulls.running() == {"m"}
    assert [progress.model for progress in pulls.progress()] == ["m"]
    puller.go.set()
    results = await asyncio.gather(first.result(), second.result())
    assert [result.name for result in results] == ["m:1", "m:1"]
    assert puller.calls == ["M"]
    assert pulls.running() == set()
    assert pulls.progress() == []


async def test_engine_is_begun_once_and_not_for_speech(tmp_path: Path) -> None:
    begun: list[ModelTask] = []
    for task in (ModelTask.TRANSCRIBE, ModelTask.EMBED):
        puller = SlowPuller(model(tmp_path), task)
        puller.go.set()
        pulls = PullManager(puller, str.lower, EventHub(), lambda task=task: begun.append(task))
        await pulls.join("m").result()
    assert begun == [ModelTask.EMBED]


async def test_followers_receive_progress_and_the_final_status(tmp_path: Path) -> None:
    puller = SlowPuller(model(tmp_path))
    hub = EventHub()
    with hub.subscribe() as subscription:
        pull = manager(puller, hub).join("m")
        received: list[PullProgress] = []
        async for progress in pull.follow():
            received.append(progress)
            if progress.received == 1000:
                puller.go.set()
        subscription.end()
        published = [event.data async for event in subscription]
    assert received[0].status == "resolving"
    assert received[-1].status == "done"
    assert (received[-1].received, received[-1].total) == (1000, 1000)
    assert b'"done"' in published[-1]


async def test_failed_pull_is_raised_and_the_next_one_starts_anew(tmp_path: Path) -> None:
    puller = SlowPuller(HashMismatch("Not what was promised."))
    puller.go.set()
    pulls = manager(puller)
    pull = pulls.join("m")
    with pytest.raises(HashMismatch):
        await pull.result()
    assert pull.progress.status == "failed"
    with pytest.raises(HashMismatch):
        await pulls.join("m").result()
    assert len(puller.calls) == 2


async def test_cancel_stops_the_download_for_all_clients(tmp_path: Path) -> None:
    pulls = manager(SlowPuller(model(tmp_path)))
    pull = pulls.join("m")
    assert await pulls.cancel("M") is True
    with pytest.raises(PullCancelled):
        await pull.result()
    assert await pulls.cancel("m") is False


async def test_close_cancels_pulls_and_refuses_new_ones(tmp_path: Path) -> None:
    pulls = manager(SlowPuller(model(tmp_path)))
    pull = pulls.join("m")
    await pulls.close()
    assert pull.done
    with pytest.raises(ShuttingDown):
        pulls.join("m")


async def test_disconnected_client_does_not_stop_the_download(
    run_daemon: DaemonFactory, tmp_path: Path
) -> None:
    puller = SlowPuller(model(tmp_path))
    async with run_daemon(pull=puller) as daemon:
        stream = daemon.stream("POST", "/ingle/v1/pull", json={"model": "smollm2"})
        name, progress = await anext(stream)
        assert name == "progress"
        await stream.aclose()
        answer = (await daemon.unix.get("/ingle/v1/models")).json()
        states = {m["name"]: m["state"] for m in answer["models"]}
        assert states["smollm2:135m"] == "downloading"
        assert [pull["model"] for pull in answer["pulls"]] == ["smollm2:135m"]
        again = daemon.stream("POST", "/ingle/v1/pull", json={"model": "smollm2:135m"})
        await anext(again)
        puller.go.set()
        events = [event async for event in again]
        assert events[-1][0] == "done"
        assert events[-1][1]["name"] == "m:1"
        assert len(puller.calls) == 1
        assert progress["model"] == "smollm2:135m"


async def test_failed_pull_sends_an_error_event(run_daemon: DaemonFactory, tmp_path: Path) -> None:
    puller = SlowPuller(model(tmp_path))
    async with run_daemon(pull=puller) as daemon:
        stream = daemon.stream("POST", "/ingle/v1/pull", json={"model": "smollm2"})
        await anext(stream)
        answer = await daemon.unix.post("/ingle/v1/pull/cancel", json={"model": "smollm2"})
        assert answer.json() == {"model": "smollm2:135m", "cancelled": True}
        *_, (name, data) = [event async for event in stream]
        assert name == "error"
        assert data["error"]["code"] == "pull_cancelled"
