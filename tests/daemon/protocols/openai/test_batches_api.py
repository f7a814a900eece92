"""OpenAI's files and batches endpoints, called by OpenAI's SDK over real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.worker.supervisor.worker_process import WorkerProcess
from ingle.daemon.batches import batch_manager, batch_run
from ingle.daemon.batches.batch_input import BatchInput
from ingle.daemon.batches.batch_record import BatchRecord, BatchStore
from ingle.daemon.batches.file_store import FileStore

if TYPE_CHECKING:
    import openai
    from openai.types import Batch

    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

CHAT = "/v1/chat/completions"
REPLY = "Hello from the scripted model."
ENDED = ("completed", "failed", "cancelled", "expired")


def line(custom_id: str, text: str = "Hi", **fields: Any) -> dict[str, Any]:
    body = {"model": "echo:1", "messages": [{"role": "user", "content": text}]}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body | fields}


def jsonl(lines: list[Any]) -> bytes:
    return b"".join(
        (entry if isinstance(entry, bytes) else json.dumps(entry).encode()) + b"\n"
        for entry in lines
    )


def client_of(daemon: RunningDaemon) -> openai.AsyncOpenAI:
    import openai

    return openai.AsyncOpenAI(api_key="none", base_url=f"{daemon.base_url}/v1", max_retries=0)


async def submit(client: openai.AsyncOpenAI, lines: list[Any], endpoint: Any = CHAT) -> Batch:
    stored = await client.files.create(file=("in.jsonl", jsonl(lines)), purpose="batch")
    return await client.batches.create(
        input_file_id=stored.id,
        endpoint=endpoint,
        completion_window="24h",
        metadata={"why": "test"},
    )


async def ended(client: openai.AsyncOpenAI, batch: Batch) -> Batch:
    async with asyncio.timeout(60):
        while batch.status not in ENDED:
            await asyncio.sleep(0.02)
            batch = await client.batches.retrieve(batch.id)
    return batch


async def results(client: openai.AsyncOpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    content = await client.files.content(file_id)
    return [json.loads(text) for text in content.text.splitlines()]


async def test_every_request_gets_exactly_one_result(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        lines = [line(f"r{number}") for number in range(40)]
        lines.insert(7, line("odd", temperature=9))
        lines.insert(9, line("nobody", model="no-such-model"))
        batch = await ended(client, await submit(client, lines))
        assert batch.status == "completed"
        assert batch.metadata == {"why": "test"}
        assert batch.request_counts is not None
        assert batch.request_counts.model_dump() == {"total": 42, "completed": 40, "failed": 2}
        good = await results(client, batch.output_file_id)
        assert sorted(r["custom_id"] for r in good) == sorted(f"r{n}" for n in range(40))
        assert {r["response"]["status_code"] for r in good} == {200}
        answers = [r["response"]["body"]["choices"][0]["message"]["content"] for r in good]
        assert set(answers) == {REPLY}
        bad = {r["custom_id"]: r["response"] for r in await results(client, batch.error_file_id)}
        assert (bad["odd"]["status_code"], bad["nobody"]["status_code"]) == (400, 404)
        assert bad["odd"]["body"]["error"]["param"] == "temperature"
        assert batch.usage is not None
        assert batch.usage.output_tokens >= 40 * len(REPLY)
        assert [b.id async for b in client.batches.list(limit=1)] == [batch.id]


async def test_batch_of_completions(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        plain = {"model": "echo:1", "prompt": "Hi"}
        entry = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": plain}
        batch = await ended(client, await submit(client, [entry], "/v1/completions"))
        (result,) = await results(client, batch.output_file_id)
        assert result["response"]["body"]["choices"][0]["text"] == REPLY


@pytest.mark.parametrize(
    ("broken", "code", "number"),
    [
        (line("a"), "duplicate_custom_id", 2),
        (line(""), "missing_custom_id", 2),
        (line("b", stream=True), "invalid_request", 2),
        (line("b") | {"url": "/v1/completions"}, "mismatched_url", 2),
        (line("b") | {"method": "GET"}, "invalid_method", 2),
        (b"\xff", "invalid_json_line", 2),
        (b"[" * 3000, "invalid_json_line", 2),
        ({"custom_id": 1}, "invalid_json_line", 2),
    ],
)
async def test_invalid_line_fails_the_whole_batch(
    daemon: RunningDaemon, broken: Any, code: str, number: int
) -> None:
    async with client_of(daemon) as client:
        batch = await ended(client, await submit(client, [line("a"), broken]))
        assert batch.status == "failed"
        assert batch.errors is not None
        assert batch.errors.data is not None
        (problem,) = batch.errors.data
        assert (problem.code, problem.line) == (code, number)
        assert batch.output_file_id is None


async def test_pictures_of_a_batch_are_not_fetched(run_daemon: DaemonFactory) -> None:
    address = {"type": "image_url", "image_url": {"url": "http://fabrikam.org/a.png"}}
    asking = line("a", messages=[{"role": "user", "content": [address]}])
    async with run_daemon(picture_urls=True) as daemon, client_of(daemon) as client:
        batch = await ended(client, await submit(client, [asking]))
        (result,) = await results(client, batch.error_file_id)
    assert "not fetched" in result["response"]["body"]["error"]["message"]


async def test_empty_input_file_fails_the_batch(daemon: RunningDaemon) -> None:
    async with client_of(daemon) as client:
        batch = await ended(client, await submit(client, [b"", b"  "]))
        assert batch.status == "failed"


async def test_cancelling_keeps_finished_results(run_daemon: DaemonFactory) -> None:
    import openai

    async with (
        run_daemon(script={"reply": "x" * 40, "step_seconds": 0.002}) as daemon,
        client_of(daemon) as client,
    ):
        running = await submit(client, [line(f"r{n}") for n in range(400)])
        waiting = await submit(client, [line("w")])
        async with asyncio.timeout(60):
            while not running.request_counts or not running.request_counts.completed:
                await asyncio.sleep(0.02)
                running = await client.batches.retrieve(running.id)
        await client.batches.cancel(waiting.id)
        assert (await client.batches.retrieve(waiting.id)).status == "cancelled"
        await client.batches.cancel(running.id)
        batch = await ended(client, running)
        assert batch.status == "cancelled"
        assert batch.request_counts is not None
        done = await results(client, batch.output_file_id)
        assert 0 < len(done) == batch.request_counts.completed < 400
        with pytest.raises(openai.NotFoundError):
            await client.batches.cancel("batch_" + "0" * 24)


async def test_batch_cancelled_during_validation_ends_as_cancelled(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelling = threading.Event()
    check, save = BatchInput.check, BatchStore.save

    def checked(source: BatchInput) -> Any:
        cancelling.wait(10)
        return check(source)

    def saved(store: BatchStore, record: BatchRecord) -> None:
        if record.status == "cancelling":
            cancelling.set()  # the batch is read, and begins, while this is written
            time.sleep(0.2)
        save(store, record)

    monkeypatch.setattr(BatchInput, "check", checked)
    monkeypatch.setattr(BatchStore, "save", saved)
    async with client_of(daemon) as client:
        batch = await submit(client, [line("a")])
        await client.batches.cancel(batch.id)
        assert (await ended(client, batch)).status == "cancelled"


async def test_batch_responses_are_stored_only_with_store_true(
    daemon: RunningDaemon,
) -> None:
    url = "/v1/responses"
    common: dict[str, Any] = {"model": "echo:1", "input": "Hi"}
    bodies = [common, common | {"store": True}]
    bodies.append(common | {"store": True, "ingle": {"private": True}})
    lines = [
        {"custom_id": str(number), "method": "POST", "url": url, "body": body}
        for number, body in enumerate(bodies)
    ]
    async with client_of(daemon) as client:
        batch = await ended(client, await submit(client, lines, url))
        found = {r["custom_id"]: r for r in await results(client, batch.output_file_id)}
        ids = [found[str(number)]["response"]["body"]["id"] for number in range(3)]
        statuses = [(await daemon.tcp.get(f"{url}/{name}")).status_code for name in ids]
        assert statuses == [404, 200, 404]


@pytest.mark.slow
async def test_batch_expires_after_its_window(
    run_daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        run_daemon(script={"reply": "x" * 40, "step_seconds": 0.02}) as daemon,
        client_of(daemon) as client,
    ):
        batch = await submit(client, [line(f"r{n}") for n in range(400)])
        async with asyncio.timeout(60):
            while not batch.request_counts or not batch.request_counts.completed:
                await asyncio.sleep(0.02)
                batch = await client.batches.retrieve(batch.id)
        tomorrow = time.time() + batch_manager.WINDOW
        monkeypatch.setattr(batch_run, "time", SimpleNamespace(time=lambda: tomorrow))
        batch = await ended(client, batch)
        assert batch.status == "expired"
        done = await results(client, batch.output_file_id)
        late = await results(client, batch.error_file_id)
        assert {r["error"]["code"] for r in late} == {"batch_expired"}
        ids = [r["custom_id"] for r in done + late]
        assert sorted(ids) == sorted(f"r{n}" for n in range(400))


@pytest.mark.slow
async def test_interactive_request_runs_before_batch_requests(run_daemon: DaemonFactory) -> None:
    async with (
        run_daemon(script={"reply": "x" * 100, "step_seconds": 0.003}) as daemon,
        client_of(daemon) as client,
    ):
        batch = await submit(client, [line(f"r{n}") for n in range(300)])
        async with asyncio.timeout(60):
            while not batch.request_counts or not batch.request_counts.completed:
                await asyncio.sleep(0.02)
                batch = await client.batches.retrieve(batch.id)
        before = batch.request_counts.completed
        hi: Any = [{"role": "user", "content": "Hi"}]
        answer = await client.chat.completions.create(model="echo:1", messages=hi)
        assert answer.choices[0].message.content
        batch = await client.batches.retrieve(batch.id)
        assert batch.request_counts is not None
        # At most what ran at the same time, and what replaced it meanwhile.
        assert batch.request_counts.completed - before <= 40
        await client.batches.cancel(batch.id)


@pytest.mark.slow
async def test_request_that_kills_the_worker_fails_alone(run_daemon: DaemonFactory) -> None:
    script = {"reply": "fine", "kills": "deadly"}
    async with (
        run_daemon(script=script, create_backend=create_worker) as daemon,
        client_of(daemon) as client,
    ):
        lines = [line(f"r{n}") for n in range(12)]
        lines.insert(5, line("poison", "This is deadly."))
        batch = await ended(client, await submit(client, lines))
        assert batch.request_counts is not None
        assert batch.request_counts.model_dump() == {"total": 13, "completed": 12, "failed": 1}
        (failure,) = await results(client, batch.error_file_id)
        assert failure["custom_id"] == "poison"
        assert failure["response"]["status_code"] == 503


def create_worker(spec: LoadSpec) -> WorkerProcess:
    return WorkerProcess(spec)


async def test_file_upload_list_and_delete(daemon: RunningDaemon) -> None:
    import openai

    async with client_of(daemon) as client:
        content = bytes(range(256)) * 5000
        stored = await client.files.create(file=("ä b.bin", content), purpose="user_data")
        assert (stored.bytes, stored.filename, stored.status) == (1280000, "ä b.bin", "processed")
        assert stored.expires_at is None
        second = await client.files.create(
            file=b"x", purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
        )
        assert second.expires_at == second.created_at + 3600
        assert (await client.files.content(stored.id)).content == content
        assert {f.id async for f in client.files.list(limit=1)} == {stored.id, second.id}
        assert [f.id async for f in client.files.list(purpose="batch")] == [second.id]
        await client.files.delete(stored.id)
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(stored.id)
        other = await client.files.create(file=b"x", purpose="user_data")
        with pytest.raises(openai.BadRequestError, match="user_data"):
            await client.batches.create(
                input_file_id=other.id, endpoint=CHAT, completion_window="24h"
            )


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b"{}", "must be a form"),
        ("multipart/form-data", b"", "must be a form"),
        ("multipart/form-data; boundary=x", b"nonsense", "cannot be told apart"),
        ("multipart/form-data; boundary=x", b"--x\r\n", "breaks off"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nabc',
            "breaks off",
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x--\r\n',
            "has no file",
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nabc\r\n--x--\r\n',
            "'purpose' must be",
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
            + b"x" * 70000
            + b"\r\n--x--\r\n",
            "longer than",
        ),
    ],
)
async def test_invalid_upload_forms_leave_no_files(
    daemon: RunningDaemon, content_type: str, body: bytes, expected: str
) -> None:
    answer = await daemon.tcp.post(
        "/v1/files", content=body, headers={"content-type": content_type}
    )
    assert answer.status_code == 400
    assert expected in answer.json()["error"]["message"]
    assert not list(daemon.services.config.paths.state.glob("files/*"))


@pytest.mark.parametrize("name", ["..%2f..%2fetc", "file-", "file-" + "g" * 24, "x" * 3000])
async def test_invalid_file_ids_are_not_found(daemon: RunningDaemon, name: str) -> None:
    for path in (f"/v1/files/{name}", f"/v1/files/{name}/content"):
        assert (await daemon.tcp.get(path)).status_code == 404
    assert (await daemon.tcp.get(f"/v1/batches/{name}")).status_code == 404


def test_stale_partial_uploads_are_removed(tmp_path: Path) -> None:
    files = FileStore(tmp_path)
    lost = tmp_path / "file-0123.part"
    lost.touch()
    os.utime(lost, (0, 0))
    running = files.begin()
    assert list(tmp_path.iterdir()) == [running.path]
    files.begin().discard()
    assert running.path.exists()
    running.discard()


def test_sweep_removes_leftovers_of_a_killed_daemon(tmp_path: Path) -> None:
    """Metadata without content and incomplete metadata are removed; a complete file stays."""
    files = FileStore(tmp_path)
    writer = files.begin()
    writer.write(b"content")
    kept = files.commit(writer.finish(), filename="f", purpose="user_data", lifetime=None)
    left = [tmp_path / name for name in ("file-0123.json", ".file-0123.json.x", "file-45.part")]
    for path in left:
        path.write_text("{}")
    files.sweep()
    assert all(path.exists() for path in left)  # these may still be in use
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    files.sweep()
    assert not any(path.exists() for path in left)
    assert files.path(kept.id).read_bytes() == b"content"
