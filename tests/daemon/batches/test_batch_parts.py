"""Batches without a server: the checks of lines, results in files, and how a batch ends."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingle.backends.base.errors import WorkerDied
from ingle.daemon.batches import batch_input, batch_manager, batch_run
from ingle.daemon.batches.batch_input import BatchInput, BatchLine
from ingle.daemon.batches.batch_manager import WINDOW, BatchManager
from ingle.daemon.batches.batch_record import BatchRecord, BatchStatus, BatchStore, BatchUsage
from ingle.daemon.batches.batch_run import BatchEndpoint, ResultFile, ResultLine, ResultResponse
from ingle.daemon.batches.file_store import BATCH_LIFETIME, FileStore
from ingle.daemon.errors import Conflict, InvalidBody, NotFound, QueueFull, ShuttingDown

URL = "/v1/x"


def request(name: str, model: str = "m", **changes: Any) -> bytes:
    fields = {"custom_id": name, "method": "POST", "url": URL, "body": {"model": model}}
    return json.dumps(fields | changes).encode()


GOOD = request("good")
PROBLEMS: dict[str, tuple[bytes, str, str | None]] = {
    "text": (b"text", "invalid_json_line", None),
    "no UTF-8": (b'{"custom_id": "\xff"}', "invalid_json_line", None),
    "no body": (b'{"custom_id":"a","method":"POST","url":"/v1/x"}', "invalid_json_line", None),
    "no name": (request(""), "missing_custom_id", "custom_id"),
    "twice": (GOOD, "duplicate_custom_id", "custom_id"),
    "GET": (request("a", method="GET"), "invalid_method", "method"),
    "elsewhere": (request("a", url="/v1/y"), "mismatched_url", "url"),
    "stream": (request("a", body={"stream": True}), "invalid_request", "body.stream"),
    "long": (request("a" * 200), "line_too_long", None),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_line_that_cannot_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text, code, param = PROBLEMS[name]
    monkeypatch.setattr(batch_input, "MAX_LINE", 200)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n".join([GOOD, b"", b"  ", text]))
    lines, problems = BatchInput(path, URL).check()
    assert [line.custom_id for line in lines] == ["good"]
    assert [(p.code, p.param, p.line) for p in problems] == [(code, param, 4)]


def test_half_an_emoji_is_read_as_the_replacement_character(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(GOOD.replace(b'"m"', rb'"m", "prompt": "\ud83d!"'))
    batch = BatchInput(path, URL)
    (line,), problems = batch.check()
    assert problems == []
    assert json.loads(batch.read(line))["prompt"] == "\ufffd!"


def test_lines_are_grouped_by_model_and_read_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.jsonl"
    texts = [request("a", "one"), b"", request("b", "two"), request("c", "one", method="post")]
    texts.append(request("d", "two", body={"model": "two", "stream": False}))
    path.write_bytes(b"\n".join(texts))
    source = BatchInput(path, URL)
    lines, problems = source.check()
    assert problems == []
    assert [line.custom_id for line in lines] == ["a", "c", "b", "d"]
    assert [json.loads(source.read(line))["model"] for line in lines] == ["one"] * 2 + ["two"] * 2
    monkeypatch.setattr(batch_input, "MAX_LINES", 3)
    _, problems = source.check()
    assert [(p.code, p.line) for p in problems] == [("too_many_requests", 5)]
    monkeypatch.setattr(batch_input, "MAX_LINES", 4)
    assert source.check()[1] == []
    path.write_bytes(b"x\n" * 30)
    assert [p.line for p in source.check()[1]] == list(range(1, 21)), "the first twenty"
    path.write_bytes(b"\n \n")
    assert [(p.code, p.line) for p in source.check()[1]] == [("empty_file", None)]


def test_results_survive_a_torn_line_and_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    results = ResultFile(path)
    bodies: list[Any] = [
        {"usage": {"prompt_tokens": 3, "completion_tokens": 5}},
        {"usage": {"input_tokens": 7, "output_tokens": 11}},
        {
            "usage": {
                "prompt_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 13},
                "completion_tokens_details": {"reasoning_tokens": 17},
            }
        },
        {
            "usage": {
                "input_tokens_details": {"cached_tokens": 19},
                "output_tokens_details": {"reasoning_tokens": 23},
            }
        },
        {},
    ]
    for number, body in enumerate(bodies):
        response = ResultResponse(200, "r", body)
        results.add(ResultLine(id="i", custom_id=str(number), response=response))
    results.add(ResultLine(id="i", custom_id="none"))
    results.close()
    results.close()
    assert results.usage() == BatchUsage(
        input_tokens=11, cached_tokens=32, output_tokens=16, reasoning_tokens=40
    )
    whole = path.read_bytes()
    for torn in (b'{"custom_id":"torn"}', b"{torn\n", b'{"id":1}\n'):
        path.write_bytes(whole + torn + (whole if torn.endswith(b"\n") else b""))
        again = ResultFile(path)
        assert again.done == {"0", "1", "2", "3", "4", "none"}
        again.close()
        assert path.read_bytes() == whole


def test_files_expire_to_the_second_and_are_listed_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    files = FileStore(tmp_path)

    def add(lifetime: int | None, file_id: str | None = None) -> str:
        writer = files.begin()
        writer.write(b"abc")
        writer.write(b"de")
        assert writer.size == 5
        stored = files.commit(
            writer.finish(), filename="f", purpose="batch", lifetime=lifetime, file_id=file_id
        )
        assert (stored.bytes, stored.created_at) == (5, int(now[0]))
        return stored.id

    names = [add(None, f"file-{number:024x}") for number in (2, 1)]
    now[0] += 1
    names.append(add(10))
    again = files.commit(
        tmp_path / "gone", filename="g", purpose="batch", lifetime=9, file_id=names[2]
    )
    assert (again.bytes, again.expires_at) == (5, 1010)
    assert [file.id for file in files.list()] == [names[2], names[1], names[0]]
    now[0] = 1009.9
    assert files.get(names[2]) == again
    now[0] = 1010
    with pytest.raises(NotFound):
        files.get(names[2])
    assert len(list(tmp_path.iterdir())) == 4
    for name in ("x", f"{names[0]}0", names[0].upper()):
        with pytest.raises(NotFound):
            files.path(name)
    files.delete(names[0])
    assert [file.id for file in files.list()] == [names[1]]
    part = tmp_path / "file-1.part"
    part.touch()
    os.utime(part, (1010 - 3600, 1010 - 3600))
    files.sweep()
    assert part.exists()
    now[0] += 1
    files.sweep()
    assert not part.exists()


class Answers:
    """Answers requests as their names say, and counts them."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.running = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, body: bytes) -> object:
        name = json.loads(body)["model"]
        self.asked[name] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
        finally:
            self.running -= 1
        if name == "dies" or (name == "dies once" and self.asked[name] == 1):
            raise WorkerDied("It died.")
        if name == "busy" and self.asked[name] < 3:
            raise QueueFull("Full.")
        if name == "bad":
            raise InvalidBody("Bad.")
        return {"usage": {"prompt_tokens": 2, "completion_tokens": 3}}


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchManager:
    monkeypatch.setattr(batch_run, "PATIENCE", 0)
    return BatchManager(tmp_path / "batches", at_once=2)


async def start(manager: BatchManager, *names: str, **fields: Any) -> BatchRecord:
    writer = manager.files.begin()
    texts = [request(f"{number} {name}", name) for number, name in enumerate(names)]
    writer.write(b"\n".join(texts))
    stored = manager.files.commit(
        writer.finish(), filename="in", purpose=fields.pop("purpose", "batch"), lifetime=None
    )
    return await manager.create(
        endpoint=fields.pop("endpoint", URL),
        input_file_id=stored.id,
        completion_window="24h",
        **fields,
    )


def every(_name: str, _created: float) -> bool:
    return True


async def until_ended(manager: BatchManager, record: BatchRecord) -> BatchRecord:
    async with asyncio.timeout(30):
        while not (await manager.get(record.id)).status.ended or record in manager._live():  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.002)
    return await manager.get(record.id)


async def test_each_request_has_one_result_of_its_kind(manager: BatchManager) -> None:
    answers = Answers()
    manager.serve({URL: BatchEndpoint(answers)})
    names = ("good", "dies", "dies once", "busy", "bad", "good")
    record = await until_ended(manager, await start(manager, *names, metadata={"a": "b"}))
    assert (record.status, record.total, record.completed, record.failed, record.expired) == (
        *(BatchStatus.COMPLETED, 6),
        *(4, 2, 0),
    )
    assert answers.asked == {"good": 2, "dies": 2, "dies once": 2, "busy": 3, "bad": 1}
    assert answers.most == 2
    assert record.usage == BatchUsage(input_tokens=8, output_tokens=12)
    assert record.expires_at - record.created_at == WINDOW
    assert record.ended_at == record.completed_at is not None
    outputs, errors = manager.result_paths(record)
    found = [msgspec.json.decode(line) for line in errors.read_bytes().splitlines()]
    assert {line["custom_id"]: line["response"]["status_code"] for line in found} == {
        "1 dies": 503,
        "4 bad": 400,
    }
    assert len(outputs.read_bytes().splitlines()) == 4
    for file_id, kind in ((record.output_file_id, "output"), (record.error_file_id, "errors")):
        assert file_id is not None
        stored = manager.files.get(file_id)
        assert stored.filename == f"{record.id}_{kind}.jsonl"
        assert stored.expires_at == stored.created_at + BATCH_LIFETIME
    await manager.delete(record.id)
    assert manager.files.list() == []
    with pytest.raises(NotFound):
        await manager.get(record.id)


async def test_batches_run_in_order_and_are_cancelled_running_or_waiting(
    manager: BatchManager,
) -> None:
    answers = Answers()
    answers.gate.clear()
    manager.serve({URL: BatchEndpoint(answers)})
    records = [await start(manager, "good", output_lifetime=60) for _ in range(3)]
    async with asyncio.timeout(30):
        while not answers.running:
            await asyncio.sleep(0.002)
    assert [record.status for record in records] == [BatchStatus.IN_PROGRESS, *["validating"] * 2]
    with pytest.raises(Conflict, match="cannot be deleted yet"):
        await manager.delete(records[0].id)
    assert (await manager.cancel(records[1].id)).status is BatchStatus.CANCELLED
    assert (await manager.cancel(records[1].id)).status is BatchStatus.CANCELLED
    assert manager.result_paths(records[1]) == []
    await manager.cancel(records[0].id)
    assert (await until_ended(manager, records[0])).status is BatchStatus.CANCELLED
    answers.gate.set()
    last = await until_ended(manager, records[2])
    assert (last.status, last.completed) == (BatchStatus.COMPLETED, 1)
    assert manager.files.get(last.output_file_id or "").expires_at is not None
    with pytest.raises(Conflict, match="The batch is completed"):
        await manager.cancel(last.id)
    assert {record.id for record in await manager.list()} == {record.id for record in records}
    assert [r.cancelled_at is not None for r in records] == [True, True, False]


async def test_batches_that_cannot_begin(
    manager: BatchManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers()
    answers.gate.clear()
    manager.serve({URL: BatchEndpoint(answers)})
    with pytest.raises(InvalidBody, match="not supported for '/v1/y'"):
        await start(manager, "good", endpoint="/v1/y")
    with pytest.raises(InvalidBody, match="uploaded for 'vision'"):
        await start(manager, "good", purpose="vision")
    monkeypatch.setattr(batch_manager, "MAX_WAITING", 1)
    first = await start(manager, "good")
    async with asyncio.timeout(30):
        while not answers.running:
            await asyncio.sleep(0.002)
    await start(manager, "good")
    with pytest.raises(Conflict, match="1 batches are waiting already"):
        await start(manager, "good")
    await manager.close()
    with pytest.raises(ShuttingDown):
        await start(manager, "good")
    later = BatchManager(manager.files._folder.parent, at_once=2)  # pyright: ignore[reportPrivateUsage]
    answers.gate.set()
    later.serve({URL: BatchEndpoint(answers)})
    await later.resume()
    assert (await until_ended(later, first)).status is BatchStatus.COMPLETED
    await later.cancel_all(every)
    broken = await start(later, "")
    later.files.delete(broken.input_file_id)
    found = await until_ended(later, broken)
    assert (found.status, found.ended_at) == (BatchStatus.FAILED, found.failed_at)
    assert [problem.code for problem in found.problems] == ["not_found"]


async def test_what_was_not_run_in_time_expires(
    manager: BatchManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_manager, "WINDOW", 0)
    answers = Answers()
    manager.serve({URL: BatchEndpoint(answers)})
    record = await until_ended(manager, await start(manager, "good", "good"))
    assert (record.status, record.completed, record.failed, record.expired) == ("expired", 0, 2, 2)
    assert record.ended_at == record.expired_at is not None
    assert answers.asked == {}


def test_records_are_listed_newest_first(tmp_path: Path) -> None:
    store = BatchStore(tmp_path)
    fields: dict[str, Any] = dict.fromkeys(("endpoint", "input_file_id", "completion_window"), "")
    fields |= {"expires_at": 0, "output_id": "o", "error_id": "e", "output_lifetime": 1}
    ids = [store.new_id("batch"), store.new_id("msgbatch"), store.new_id("batch")]
    for number, name in enumerate(ids):
        store.save(BatchRecord(id=name, created_at=number // 2, **fields))
    (tmp_path / "batch_x.json").write_text("{")
    assert [r.id for r in store.list()] == [ids[2], *sorted(ids[:2])]
    assert [store.get(name).kind for name in ids] == ["batch", "msgbatch", "batch"]
    assert BatchLine(0, 1, "a", "m").length == 1
    for kind in ("output", "errors"):
        store.results(store.get(ids[0]), kind).touch()
    store.delete(ids[0])
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(NotFound):
        store.get(ids[0])
