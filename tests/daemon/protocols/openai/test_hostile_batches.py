"""Hostile batch files: each fails as a whole, or every line has its own result."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.thinning import thinned

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

CHAT = "/v1/chat/completions"
ENDED = ("completed", "failed", "cancelled", "expired")
SAID = [{"role": "user", "content": "Hi"}]


def line(custom_id: str = "a", **fields: Any) -> bytes:
    body = {"model": "echo:1", "messages": SAID} | fields
    return json.dumps(
        {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body}
    ).encode()


def raw(body: bytes) -> bytes:
    """A line with this text in place of its body."""
    return b'{"custom_id":"r","method":"POST","url":"/v1/chat/completions","body":' + body + b"}"


def noise(seed: int) -> bytes:
    """A valid file in which some bytes are damaged."""
    source = random.Random(seed)
    content = bytearray(b"\n".join(line(f"n{number}") for number in range(20)))
    for _ in range(source.choice((1, 3, 40))):
        content[source.randrange(len(content))] = source.randrange(256)
    return bytes(content)


# Nothing in these files can run.
REFUSED: dict[str, bytes] = {
    "random bytes": random.Random(1).randbytes(100_000),
    "nothing": b"",
    "blank lines": b" \r\n\t\n" * 10_000,
    "UTF-16": line().decode().encode("utf-16"),
    "a compressed file": gzip.compress(line()),
    "NUL bytes": b"\0" * 10_000,
    "one array": b"[" + line() + b"]",
    "an endless array": b"[" * 1_000_000,
    "nested objects": b'{"a":' * 100_000,
    "a deep body": raw(b"[" * 50_000 + b"]" * 50_000),
    "a body that is a list": raw(b"[]"),
    "a body that is a number": raw(b"1e999"),
    "half a line": line()[:-9],
    "too many lines": b"\n".join(line(f"{number}") for number in range(50_001)),
    "one name for all": b"\n".join([line("same")] * 1000),
    "another route": line().replace(CHAT.encode(), b"/v1/../ingle/v1/shutdown"),
    "another method": line().replace(b"POST", b"DELETE"),
    "a stream": line(stream=True),
}
# These are requests, of which each gets a result.
ANSWERED: dict[str, list[bytes]] = {
    "names of files": [line(name) for name in ("../../keys.json", "/etc/passwd", "a\0b", ".")],
    "names with line breaks": [line("a\nb"), line("\r\n"), line("\u2028\u2029"), line("\x1b[2J")],
    "a name of a megabyte": [line("n" * 2**20)],
    "unknown models": [line(f"u{number}", model=f"no-{number}") for number in range(200)],
    "models that are paths": [line("p", model="/etc/passwd"), line("q", model="../" * 90 + "x")],
    "wrong types": [line("t", temperature="hot"), line("m", messages=5), line("l", model="")],
    "many fields": [line("f", **{f"field{number}": number for number in range(70_000)})],
    "a million values": [raw(b'{"model":"echo:1","messages":[' + b"0," * 1_100_000 + b"0]}")],
    "a long text": [line("w", messages=[{"role": "user", "content": "w " * 2_000_000}])],
    "a byte order mark": [b"\xef\xbb\xbf" + line("b"), line("c")],
}


async def submitted(daemon: RunningDaemon, content: bytes, name: str = "in.jsonl") -> Any:
    """The batch of an uploaded file, once it has ended."""
    form: Any = {"file": (name, content)}
    stored = await daemon.tcp.post("/v1/files", files=form, data={"purpose": "batch"})
    assert stored.status_code == 200, stored.text
    body = {
        "input_file_id": stored.json()["id"],
        "endpoint": CHAT,
        "completion_window": "24h",
    }
    answer = await daemon.tcp.post("/v1/batches", json=body)
    assert answer.status_code == 200, answer.text
    batch = answer.json()
    async with asyncio.timeout(120):
        while batch["status"] not in ENDED:
            await asyncio.sleep(0.02)
            assert (await daemon.tcp.get("/health")).status_code == 200
            batch = (await daemon.tcp.get(f"/v1/batches/{batch['id']}")).json()
    return batch


async def names_of_results(daemon: RunningDaemon, batch: Any) -> list[str]:
    names: list[str] = []
    for kind in ("output_file_id", "error_file_id"):
        if batch[kind] is not None:
            content = (await daemon.tcp.get(f"/v1/files/{batch[kind]}/content")).content
            names += [json.loads(text)["custom_id"] for text in content.split(b"\n")[:-1]]
    return names


@pytest.mark.parametrize("kind", REFUSED)
async def test_file_that_is_no_batch_fails_with_its_reason(
    daemon: RunningDaemon, kind: str, tries: Callable[[int], None]
) -> None:
    batch = await submitted(daemon, REFUSED[kind])
    assert batch["status"] == "failed"
    assert 0 < len(batch["errors"]["data"]) <= 20
    for problem in batch["errors"]["data"]:
        assert problem["code"]
        assert len(problem["message"]) < 1000
    assert await names_of_results(daemon, batch) == []
    tries(1)


@pytest.mark.parametrize("kind", thinned(ANSWERED, 3))
async def test_each_hostile_line_has_one_result(
    daemon: RunningDaemon, ingle_home: Path, kind: str, tries: Callable[[int], None]
) -> None:
    lines = ANSWERED[kind]
    before = {path for path in ingle_home.parent.rglob("*") if path.is_dir()}
    batch = await submitted(daemon, b"\n".join([*lines, line("sound")]))
    if kind == "a byte order mark":  # which is no JSON
        assert [problem["line"] for problem in batch["errors"]["data"]] == [1]
        return
    assert batch["status"] == "completed", batch["errors"]
    wanted = [json.loads(each)["custom_id"] for each in [*lines, line("sound")]]
    assert sorted(await names_of_results(daemon, batch)) == sorted(wanted)
    assert batch["request_counts"]["completed"] >= 1
    assert {path for path in ingle_home.parent.rglob("*") if path.is_dir()} >= before
    tries(len(lines))


@pytest.mark.parametrize("count", [5, pytest.param(400, marks=pytest.mark.slow)])
async def test_damaged_files_end_and_name_no_line_twice(
    daemon: RunningDaemon, count: int, tries: Callable[[int], None]
) -> None:
    for seed in range(count):
        batch = await submitted(daemon, noise(seed))
        names = await names_of_results(daemon, batch)
        assert len(names) == len(set(names)), seed
        if batch["status"] == "failed":
            assert batch["errors"]["data"], seed
        else:
            assert batch["status"] == "completed"
            assert len(names) == batch["request_counts"]["total"], seed
    sound = await submitted(daemon, line("sound"))
    assert await names_of_results(daemon, sound) == ["sound"]
    tries(count)


@pytest.mark.parametrize("name", ["../../state/keys.json", "/etc/x", "a\\b", "x" * 200, ".", " "])
async def test_name_of_an_upload_is_only_a_name(
    daemon: RunningDaemon, ingle_home: Path, name: str
) -> None:
    batch = await submitted(daemon, line("sound"), name)
    assert batch["status"] == "completed"
    stored = (await daemon.tcp.get(f"/v1/files/{batch['input_file_id']}")).json()
    assert stored["filename"]
    assert (ingle_home / "state/files" / f"{batch['input_file_id']}.bin").exists()
    assert not (ingle_home / "state/keys.json").exists()


async def test_input_that_is_deleted_while_its_batch_runs_ends_it(daemon: RunningDaemon) -> None:
    form: Any = {"file": ("f", b"\n".join(line(f"{number}") for number in range(2000)))}
    stored = (await daemon.tcp.post("/v1/files", files=form, data={"purpose": "batch"})).json()
    body = {"input_file_id": stored["id"], "endpoint": CHAT, "completion_window": "24h"}
    batch = (await daemon.tcp.post("/v1/batches", json=body)).json()
    deleted = await daemon.tcp.delete(f"/v1/files/{stored['id']}")
    assert deleted.status_code in (200, 409)
    async with asyncio.timeout(120):
        while batch["status"] not in ENDED:
            await asyncio.sleep(0.02)
            batch = (await daemon.tcp.get(f"/v1/batches/{batch['id']}")).json()
    names = await names_of_results(daemon, batch)
    assert len(names) == len(set(names))
    if batch["status"] == "completed":
        assert len(names) == 2000
