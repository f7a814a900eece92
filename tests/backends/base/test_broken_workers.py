"""Misbehaving worker processes: garbage output, early death, failing start, rejected requests."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ingle.backends.base.backend import stream_events
from ingle.backends.base.errors import RequestRejected, WorkerDied
from ingle.backends.base.events import Delta, Event
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import ModelInfo
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.backends.worker.worker_protocol import Ready, encode_frame

if sys.platform != "win32":
    import uvloop

MakeSpec = Callable[..., LoadSpec]
StartUp = Callable[[str], None]

INFO = ModelInfo(
    engine="none",
    device="none",
    architecture="none",
    parameters=0,
    vocab_size=1,
    trained_context=1,
    context=1,
    slots=1,
    kv_capacity=1,
    has_chat_template=False,
)


@pytest.fixture(params=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """Both event loops: they treat an exited child differently; the daemon uses the second."""
    if request.param == "asyncio":
        factory = asyncio.new_event_loop
    elif sys.platform == "win32":
        pytest.skip("uvloop does not exist here")
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner


@pytest.fixture
def at_start_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StartUp:
    """Return a function that makes workers run some code before their own."""

    def run(code: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return run


def ask(request_id: str = "r", prompt: str | list[int] = "Hi", **fields: object) -> GenerateRequest:
    return GenerateRequest(id=request_id, prompt=prompt, **fields)  # pyright: ignore[reportArgumentType]


async def collect(worker: WorkerProcess, request: GenerateRequest) -> list[Event]:
    async with asyncio.timeout(10):
        return [event async for event in stream_events(worker, request)]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


GARBAGE = struct.pack("<I", 3) + b"\xc1\xc1\xc1"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(f"import os; os.write(1, {GARBAGE!r}); os._exit(0)", id="and ends"),
        pytest.param(f"import os; os.write(1, {GARBAGE!r})", id="and continues"),
        pytest.param("import os\nwhile True: os.write(1, b'\\xff' * 65536)", id="without end"),
    ],
)
def test_garbage_on_stdout_fails_the_start(
    scripted_spec: MakeSpec, at_start_up: StartUp, runner: asyncio.Runner, code: str
) -> None:
    at_start_up(code)

    async def start() -> None:
        worker = WorkerProcess(scripted_spec())
        with pytest.raises(WorkerDied, match="no message"):
            await asyncio.wait_for(worker.start(), 10)
        assert worker.state == "dead"
        assert worker.pid is not None
        assert not psutil.pid_exists(worker.pid)

    runner.run(start())


async def test_worker_that_dies_when_ready_is_reported_dead(
    scripted_spec: MakeSpec, at_start_up: StartUp
) -> None:
    at_start_up(f"import os; os.write(1, {encode_frame(Ready(INFO))!r}); os._exit(7)")
    worker = WorkerProcess(scripted_spec())
    await asyncio.wait_for(worker.start(), 10)
    assert "ended with status 7" in str(await asyncio.wait_for(worker.wait_dead(), 10))
    assert worker.state == "dead"
    with pytest.raises(WorkerDied):
        await collect(worker, ask())


async def test_stop_during_spawn_leaves_no_child(scripted_spec: MakeSpec) -> None:
    worker = WorkerProcess(scripted_spec(load_seconds=60))
    start = asyncio.create_task(worker.start())
    await asyncio.sleep(0)
    assert worker.pid is None
    await worker.stop(grace=0)
    with pytest.raises(WorkerDied):
        await start
    assert worker.state == "dead"
    assert worker.pid is not None
    assert not psutil.pid_exists(worker.pid)


async def test_failing_progress_callback_fails_the_start(scripted_spec: MakeSpec) -> None:
    def fail(_fraction: float) -> None:
        raise KeyError("the daemon's own mistake")

    worker = WorkerProcess(scripted_spec(load_seconds=0.05))
    with pytest.raises(WorkerDied, match="the daemon's own mistake"):
        await asyncio.wait_for(worker.start(fail), 10)
    assert worker.pid is not None
    assert not psutil.pid_exists(worker.pid)


async def test_death_message_contains_the_exception() -> None:
    """A regular exit would abort, because the reader thread holds stdin, and hide the cause."""
    spec = LoadSpec(engine="scripted", path="", context=64, script="{broken")
    worker = WorkerProcess(spec)
    with pytest.raises(WorkerDied, match=r"ended with status 3: msgspec\.DecodeError") as caught:
        await asyncio.wait_for(worker.start(), 10)
    assert "Traceback" in caught.value.stderr_tail


async def test_death_message_is_short_and_without_control_characters(
    scripted_spec: MakeSpec, at_start_up: StartUp
) -> None:
    at_start_up("import os; os.write(2, b'\\x1b[31mred' + b'!' * 9000 + b'\\n'); os._exit(1)")
    worker = WorkerProcess(scripted_spec())
    with pytest.raises(WorkerDied, match="red!!!") as caught:
        await asyncio.wait_for(worker.start(), 10)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 600


async def test_worker_exits_when_stdin_is_invalid(scripted_spec: MakeSpec) -> None:
    worker = WorkerProcess(scripted_spec())
    await worker.start()
    stdin = worker._process.stdin  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
    assert stdin is not None
    stdin.write(b"\xff\xff\xff\xff")
    assert "ended with status 3" in str(await asyncio.wait_for(worker.wait_dead(), 10))
    await worker.stop(grace=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": ["a", ""]}, "stop"),
        ({"n": 0}, "n"),
        ({"n": -1}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [2**70]}, None),
        ({"prompt": "\ud800"}, None),
        ({"prompt": []}, "prompt"),
    ],
)
async def test_invalid_request_is_rejected_without_affecting_others(
    scripted_spec: MakeSpec, fields: dict[str, object], param: str | None
) -> None:
    worker = WorkerProcess(scripted_spec(reply="x" * 50, step_seconds=0.002))
    await worker.start()
    neighbour = asyncio.create_task(collect(worker, ask("neighbour")))
    with pytest.raises(RequestRejected) as caught:
        await collect(worker, ask("wrong", **fields))  # pyright: ignore[reportArgumentType]
    assert caught.value.param == param
    assert text_of(await neighbour) == "x" * 50
    assert text_of(await collect(worker, ask("wrong"))) == "x" * 50
    await worker.stop()


async def test_duplicate_request_id_is_rejected(scripted_spec: MakeSpec) -> None:
    worker = WorkerProcess(scripted_spec(reply="x" * 50, step_seconds=0.002))
    await worker.start()
    first = asyncio.create_task(collect(worker, ask("same")))
    await asyncio.sleep(0)
    with pytest.raises(RequestRejected, match="'same' is running"):
        await collect(worker, ask("same"))
    assert text_of(await first) == "x" * 50
    assert text_of(await collect(worker, ask("same"))) == "x" * 50
    await worker.stop()
