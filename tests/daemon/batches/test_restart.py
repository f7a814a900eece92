"""A batch resumes after its daemon is killed, and loses or repeats no request."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingle.daemon.batches.batch_manager import BatchManager
from ingle.daemon.batches.batch_record import BatchStatus, BatchStore
from ingle.daemon.batches.batch_run import BatchEndpoint, ResultError, ResultFile, ResultLine
from ingle.daemon.batches.file_store import FileStore
from ingle.models.metadata.manifest import Manifest, write_manifest

SERVE = """
import sys
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
        script = '{"reply": "Done.", "step_seconds": 0.0005}'
        spec = LoadSpec(
            engine="scripted", path=str(model.path), context=256, slots=32, script=script,
            kv_capacity=16384,
        )
        return LoadPlan(spec, MemoryNeeds(1 << 20))

server.build_services = partial(server.build_services, make_preparer=Scripted)
sys.exit(main(["serve", "--port", "-1"]))
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs the unix socket")


def start(home: Path) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "INGLE_HOME": str(home), "INGLE_SLOTS": "32"}
    process = subprocess.Popen([sys.executable, "-P", "-c", SERVE], cwd="/", env=environ)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(str(home / "runtime" / "ingle.sock"))
            return process
        time.sleep(0.02)
    raise AssertionError("the daemon does not listen")


def client_of(home: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(home / "runtime" / "ingle.sock"))
    return httpx.Client(base_url="http://ingle", transport=transport, timeout=120)


def install(home: Path) -> None:
    folder = home / "models" / "echo" / "1"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    facts: dict[str, Any] = {"licence": "", "description": "", "quantization": "", "source": "test"}
    write_manifest(
        folder,
        Manifest(
            name="echo:1",
            file="model.gguf",
            size=4,
            sha256="0" * 64,
            parameters=1,
            architecture="llama",
            context=256,
            chat=True,
            **facts,
        ),
    )


def run_batch_with_kills(home: Path, count: int, kills: int) -> tuple[dict[str, Any], list[str]]:
    """Run a batch while killing the daemon several times; the batch and the ids in its output."""
    install(home)
    lines = [
        json.dumps(
            {
                "custom_id": f"r{number}",
                "method": "POST",
                "url": "/v1/completions",
                "body": {"model": "echo:1", "prompt": f"Request {number}"},
            }
        )
        for number in range(count)
    ]
    process = start(home)
    try:
        with client_of(home) as client:
            form: Any = {"file": ("in.jsonl", "\n".join(lines).encode())}
            stored = client.post("/v1/files", files=form, data={"purpose": "batch"}).json()
            batch_request = {"input_file_id": stored["id"], "endpoint": "/v1/completions"}
            batch = client.post("/v1/batches", json=batch_request).json()
        for kill in range(kills):
            wait_for(home, batch["id"], (kill + 1) * count // (kills + 1))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = start(home)
        batch = wait_for(home, batch["id"], count)
        with client_of(home) as client:
            output = client.get(f"/v1/files/{batch['output_file_id']}/content").text
        return batch, [json.loads(text)["custom_id"] for text in output.splitlines()]
    finally:
        process.terminate()
        process.wait()


def wait_for(home: Path, batch_id: str, completed: int) -> dict[str, Any]:
    """The batch once it has `completed` results; once completed, if those are all."""
    deadline = time.monotonic() + 240
    with client_of(home) as client:
        while time.monotonic() < deadline:
            batch = client.get(f"/v1/batches/{batch_id}").json()
            assert batch["status"] in ("validating", "in_progress", "completed"), batch
            counts = batch["request_counts"]
            if counts["completed"] >= completed and (
                completed < counts["total"] or batch["status"] == "completed"
            ):
                return batch
            time.sleep(0.02)
    raise AssertionError("the batch does not end")


@pytest.mark.slow
def test_kills_lose_and_repeat_no_result(ingle_home: Path) -> None:
    batch, ids = run_batch_with_kills(ingle_home, 10_000, kills=2)
    assert batch["request_counts"] == {"total": 10_000, "completed": 10_000, "failed": 0}
    assert sorted(ids) == sorted(f"r{number}" for number in range(10_000))


def test_truncated_result_line_is_discarded(ingle_home: Path) -> None:
    folder = ingle_home / "state" / "batches"
    folder.mkdir(parents=True)
    results = ResultFile(folder / "b.output.jsonl")
    for name in "ab":
        error = ResultError("x", "y")
        results.add(ResultLine(id="1", custom_id=name, error=error))
    results.close()
    complete = results.path.read_bytes()
    for cut in range(len(complete)):
        results.path.write_bytes(complete[:cut])
        again = ResultFile(results.path)
        again.close()
        lines = complete[:cut].count(b"\n")
        assert len(again.done) == lines
        assert results.path.read_bytes() == b"".join(complete.splitlines(keepends=True)[:lines])


async def test_stopped_batch_continues_with_the_next_start(tmp_path: Path) -> None:
    async def hang(body: bytes) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def answer(body: bytes) -> dict[str, Any]:
        return {}

    write_input(tmp_path)
    stopped, started = (BatchManager(tmp_path, at_once=4) for _ in range(2))
    stopped.serve({"/v1/completions": BatchEndpoint(hang)})
    batch = await stopped.create(
        endpoint="/v1/completions",
        input_file_id=stopped.files.list()[0].id,
        completion_window="24h",
        metadata=None,
        output_lifetime=None,
    )
    await stopped.close()
    started.serve({"/v1/completions": BatchEndpoint(answer)})
    await started.resume()
    async with asyncio.timeout(30):
        while not (batch := await started.get(batch.id)).status.ended:
            await asyncio.sleep(0.01)
    await started.close()
    assert (batch.status, batch.completed) == (BatchStatus.COMPLETED, COUNT)


COUNT, BEFORE_CANCEL = 20, 5
PROGRAM = """
import asyncio, sys
from pathlib import Path
from ingle.daemon.batches.batch_manager import BatchManager
from ingle.daemon.batches.batch_run import BatchEndpoint
from ingle.daemon.batches.batch_record import BatchStore

state, most = Path(sys.argv[1]), int(sys.argv[2])
asked = 0

async def answer(body):
    global asked
    if most and asked == most:
        await asyncio.Event().wait()
    asked += 1
    with (state / "asked").open("ab") as file:
        file.write(body + b"\\n")
    return {}

async def main():
    batches = BatchManager(state, at_once=1)
    batches.serve({"/v1/completions": BatchEndpoint(answer)})
    await batches.resume()
    if not await batches.list():
        batch = await batches.create(
            endpoint="/v1/completions", input_file_id=batches.files.list()[0].id,
            completion_window="24h", metadata=None, output_lifetime=None,
        )
        while most and (await batches.get(batch.id)).completed < most:
            await asyncio.sleep(0.002)
        if most:
            await batches.cancel(batch.id)
    while not all(batch.status.ended for batch in BatchStore(state / "batches").list()):
        await asyncio.sleep(0.002)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("cancel_after", [0, BEFORE_CANCEL])
def test_kill_at_any_rename_loses_and_repeats_no_request(tmp_path: Path, cancel_after: int) -> None:
    """Kill at the Nth rename for every N; also a batch cancelled after `cancel_after` answers."""
    for number in range(1, 20):
        state = tmp_path / str(number)
        write_input(state)
        cut = run_program(state, cancel_after, f"atomic.rename=signal:KILL@{number}")
        (batch,) = BatchStore(state / "batches").list() or [None]
        if batch is None:  # killed before it was acknowledged
            continue
        assert run_program(state, 0, "") == 0
        (batch,) = BatchStore(state / "batches").list()
        expected = cancel_after if batch.status is BatchStatus.CANCELLED else COUNT
        assert batch.status in (BatchStatus.CANCELLED, BatchStatus.COMPLETED)
        assert len((state / "asked").read_bytes().splitlines()) == expected
        assert batch.usage is not None
        files = FileStore(state / "files")
        assert batch.output_file_id is not None
        lines = files.path(batch.output_file_id).read_bytes().splitlines()
        assert {json.loads(line)["custom_id"] for line in lines} == {
            f"r{n}" for n in range(expected)
        }
        if cut == 0:
            assert number > 4
            return
    raise AssertionError("the program never completes")


def write_input(state: Path) -> None:
    files = FileStore(state / "files")
    writer = files.begin()
    for number in range(COUNT):
        body = {"model": "echo:1", "prompt": "Hi"}
        line = {"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": body}
        writer.write(json.dumps(line).encode() + b"\n")
    files.commit(writer.finish(), filename="in.jsonl", purpose="batch", lifetime=None)


def run_program(state: Path, cancel_after: int, failpoints: str) -> int:
    return subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, state, str(cancel_after)],
        env={**os.environ, "INGLE_TEST_FAILPOINTS": failpoints},
        timeout=20,
        check=False,
    ).returncode
