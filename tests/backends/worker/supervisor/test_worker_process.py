"""Life cycle of a worker process: start, streaming, errors, drain, hangs and death."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import psutil
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.child_process import child_environment
from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.errors import ContextExceeded, LoadFailed, RequestRejected, WorkerDied
from ingle.backends.base.events import Delta, Event, Finished, Started
from ingle.backends.base.load_spec import Device, LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.backends.worker.worker_protocol import Loading

MakeSpec = Callable[..., LoadSpec]
StartWorker = Callable[[LoadSpec], Awaitable[WorkerProcess]]


@pytest.fixture
async def start_worker() -> AsyncIterator[StartWorker]:
    workers: list[WorkerProcess] = []

    async def start(spec: LoadSpec) -> WorkerProcess:
        worker = WorkerProcess(spec)
        workers.append(worker)
        await worker.start()
        return worker

    yield start
    for worker in workers:
        await worker.stop(grace=0)
        assert worker.pid is None or not psutil.pid_exists(worker.pid)


def ask(text: str = "Hi", request_id: str = "r1", **fields: object) -> GenerateRequest:
    return GenerateRequest(id=request_id, messages=[ChatMessage("user", text)], **fields)  # pyright: ignore[reportArgumentType]


async def collect(worker: WorkerProcess, request: GenerateRequest) -> list[Event]:
    return [event async for event in stream_events(worker, request)]


def text_of(events: list[Event], index: int = 0) -> str:
    return "".join(e.text for e in events if isinstance(e, Delta) and e.index == index)


async def test_events_of_an_answer_stream_in_order(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec(reply="Grüße, Welt 🙂"))
    events = await collect(worker, ask())
    assert isinstance(events[0], Started)
    assert text_of(events) == "Grüße, Welt 🙂"
    (end,) = (e for e in events if isinstance(e, Finished))
    assert end is events[-1]
    assert end.reason == "stop"


async def test_start_reports_progress_and_info(scripted_spec: MakeSpec) -> None:
    worker = WorkerProcess(scripted_spec(load_seconds=0.05))
    seen: list[float] = []
    info = await worker.start(seen.append)
    assert info.engine == "scripted"
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert worker.state == "ready"
    await worker.stop()
    assert worker.state == "dead"
    assert str(await worker.wait_dead()) == "The model was unloaded."


async def test_several_choices_and_stop_strings(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec(reply="one two three"))
    events = await collect(worker, ask(n=3, stop=["thr"]))
    assert [text_of(events, index) for index in range(3)] == ["one two "] * 3
    assert sum(isinstance(e, Finished) for e in events) == 3


async def test_concurrent_requests(scripted_spec: MakeSpec, start_worker: StartWorker) -> None:
    replies = {f"question {i}.": f"answer {i}" for i in range(40)}
    worker = await start_worker(scripted_spec(replies=replies, context=256, slots=8))
    requests = [ask(f"question {i}.", request_id=str(i)) for i in range(40)]
    results = await asyncio.gather(*(collect(worker, request) for request in requests))
    assert [text_of(events) for events in results] == list(replies.values())


async def test_too_long_prompt_is_rejected(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec(context=128))
    with pytest.raises(ContextExceeded, match="maximum context length is 128 tokens") as caught:
        await collect(worker, ask("x" * 500))
    assert caught.value.prompt_tokens > 500
    assert text_of(await collect(worker, ask())) == "Hello from the scripted model."


async def test_unknown_tokens_are_rejected(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec())
    with pytest.raises(RequestRejected, match="Token 70000") as caught:
        await collect(worker, GenerateRequest(id="r", prompt=[1, 70000]))
    assert caught.value.param == "prompt"


async def test_closing_the_stream_frees_its_slot(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec(reply="x" * 400, step_seconds=0.01))
    stream = stream_events(worker, ask())
    async for event in stream:
        if isinstance(event, Delta):
            break
    await stream.aclose()
    for _ in range(100):
        await asyncio.sleep(0.01)
        if worker.gauges.running == 0:
            break
    assert worker.gauges.running == 0
    assert worker.gauges.kv_used == 0
    assert worker.gauges.completion_tokens_total < 400


@pytest.mark.slow
async def test_worker_killed_mid_stream_ends_the_stream_with_an_error(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec(die_at=5))
    with pytest.raises(WorkerDied, match="killed by SIGKILL"):
        await collect(worker, ask())
    assert "SIGKILL" in str(await worker.wait_dead())
    with pytest.raises(WorkerDied):
        await collect(worker, ask())


async def test_load_failure_contains_the_reason(scripted_spec: MakeSpec) -> None:
    worker = WorkerProcess(scripted_spec(load_error="The weights are stale."))
    with pytest.raises(LoadFailed, match="The weights are stale"):
        await worker.start()
    assert worker.state == "dead"
    assert worker.pid is not None
    assert not psutil.pid_exists(worker.pid)


async def test_cancelled_start_leaves_no_child(scripted_spec: MakeSpec) -> None:
    worker = WorkerProcess(scripted_spec(load_seconds=60))
    start = asyncio.create_task(worker.start())
    while worker.pid is None:
        await asyncio.sleep(0.01)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not psutil.pid_exists(worker.pid)


@pytest.mark.slow
async def test_drain_finishes_answers_and_rejects_new_requests(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec(reply="x" * 40, step_seconds=0.005))
    running = asyncio.create_task(collect(worker, ask()))
    while worker.gauges.running == 0:
        await asyncio.sleep(0.005)
    stopping = asyncio.create_task(worker.stop(grace=10))
    assert text_of(await running) == "x" * 40
    await stopping
    with pytest.raises(WorkerDied, match="unloaded"):
        await collect(worker, ask(request_id="r2"))


async def test_hung_worker_is_killed_on_stop(
    scripted_spec: MakeSpec, start_worker: StartWorker
) -> None:
    worker = await start_worker(scripted_spec(hang_at=3, step_seconds=0.1))
    running = asyncio.create_task(collect(worker, ask()))
    while worker.gauges.running == 0:
        await asyncio.sleep(0.005)
    await worker.stop(grace=0.1)
    with pytest.raises(WorkerDied):
        await running
    assert (worker.gauges.running, worker.gauges.kv_used) == (0, 0)


async def test_missing_file_is_a_load_failure() -> None:
    spec = LoadSpec(engine="llama.cpp", path="/nowhere/model.gguf", context=512)
    with pytest.raises(LoadFailed, match=r"cannot load model\.gguf"):
        await WorkerProcess(spec).start()


PARENT = """
import asyncio, sys
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.worker.supervisor.worker_process import WorkerProcess

async def main():
    worker = WorkerProcess(LoadSpec(
        engine="scripted", path="", context=512, script='{"load_seconds": %s}'
    ))
    start = asyncio.create_task(worker.start())
    while worker.pid is None:
        await asyncio.sleep(0.01)
    if not %s:
        await start
    print(worker.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize(("load_seconds", "while_loading"), [(0, False), (50, True)])
def test_worker_dies_with_its_daemon(load_seconds: int, while_loading: bool) -> None:
    code = PARENT % (load_seconds, while_loading)
    parent = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    family = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any(_alive(member) for member in family):
        assert time.monotonic() < deadline, "a process of ours outlived the daemon"
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_worker_environment_contains_no_secrets() -> None:
    environ = {"PATH": "/bin", "LC_ALL": "C", "OPENAI_API_KEY": "k", "HF_TOKEN": "t", "X": "y"}
    visible = child_environment(environ)
    assert visible["PATH"] == "/bin"
    assert visible["LC_ALL"] == "C"
    assert not {"OPENAI_API_KEY", "HF_TOKEN", "X"} & visible.keys()


def test_worker_orders_gpus_by_pci_bus_id() -> None:
    assert child_environment({"CUDA_VISIBLE_DEVICES": "1"}).items() >= {
        ("CUDA_VISIBLE_DEVICES", "1"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    }
    chosen = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    assert child_environment(chosen)["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


@pytest.mark.slow
async def test_frozen_worker_is_detected(
    scripted_spec: MakeSpec, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.backends.worker.supervisor.worker_process._WATCH_INTERVAL", 0.2)
    worker = await start_worker(scripted_spec(reply="x" * 400, step_seconds=0.01))
    assert worker.pid is not None
    events = stream_events(worker, ask())
    assert isinstance(await anext(events), Started)
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(WorkerDied, match="stopped answering"):
        await anext(event async for event in events if isinstance(event, Finished))


@pytest.mark.slow
async def test_worker_that_is_stopped_while_loading_is_reported_as_such(
    scripted_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.backends.worker.supervisor.worker_process._STALLED_AFTER", 3.0)
    worker = WorkerProcess(scripted_spec(load_seconds=60.0))
    loading = asyncio.create_task(worker.start())
    while (pid := worker.pid) is None:
        await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(LoadFailed, match="was stopped while loading"):
        await loading


async def test_silence_while_loading_is_bounded_by_what_can_be_at_work() -> None:
    def patience(*fractions: float, engine: str = "cuda", device: Device = "cuda") -> float:
        worker = WorkerProcess(LoadSpec(engine=engine, path="", context=64, device=device))
        for fraction in fractions:
            worker._receive(Loading(fraction))  # pyright: ignore[reportPrivateUsage]
        return worker._load_patience()  # pyright: ignore[reportPrivateUsage]

    assert patience() == 180, "its libraries may come from a slow disk"
    assert patience(0.01) == patience(0.5) == patience(0.5, 1.0) == 20
    assert patience(0.5, 1.0, device="cpu") == 180
    assert patience(0.5, 1.0, engine="llama.cpp") == 180


@pytest.mark.slow
async def test_slow_worker_is_not_killed(
    scripted_spec: MakeSpec, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent but busy: only its CPU time distinguishes it from a frozen worker."""
    # Long enough for the template process to start, whose time does not count for the worker.
    monkeypatch.setattr("ingle.backends.worker.supervisor.worker_process._WATCH_INTERVAL", 0.8)
    worker = await start_worker(scripted_spec(reply="ab", spin_seconds=1.7))
    assert text_of(await collect(worker, ask())) == "ab"


@pytest.mark.slow
async def test_endless_busy_step_is_detected(
    scripted_spec: MakeSpec, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingle.backends.worker.supervisor.worker_process._WATCH_INTERVAL", 0.8)
    monkeypatch.setattr("ingle.backends.worker.supervisor.stall_detector.LONGEST_STEP", 1.5)
    worker = await start_worker(scripted_spec(reply="ab", spin_seconds=3600))
    with pytest.raises(WorkerDied, match="did not end within"):
        await collect(worker, ask())
