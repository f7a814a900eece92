"""`ingle forget` with and without a running daemon: no byte of the erased data is left."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ingle.backends.base.load_spec import KVStoreSpec, LoadSpec
from ingle.daemon.main import main
from ingle.daemon.retention.retention_keeper import RetentionKeeper
from ingle.daemon.routing.detectors.finding import Sensitivity
from ingle.daemon.routing.policy.conversation_taint import TaintStore
from ingle.daemon.tools.edit_copies import EditCopies, FileChange
from ingle.daemon.tools.project_folder import ProjectFolder
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message
from ingle.tui.history.history_store import open_history
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ..conftest import RunningDaemon
    from .conftest import Traces

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

OLD, NEW = "xylophone", "marigold"
STORY = " once upon a time there was a lighthouse by the sea." * 7


def storing_backend(home: Path) -> Callable[[LoadSpec], LocalBackend]:
    def create(spec: LoadSpec) -> LocalBackend:
        store = KVStoreSpec(
            folder=str(home / "state/kv"), model="0" * 64, disk_bytes=2**30, memory_bytes=2**20
        )
        return LocalBackend(msgspec.structs.replace(spec, kv_store=store))

    return create


def keep_chat(home: Path, word: str, created: float) -> str:
    """Store a chat of the TUI with a title, a prompt and a draft; returns its id."""
    store = open_history(home / "chats", lambda trouble: pytest.fail(trouble))
    chat = Chat(created=created)
    chat.settings.title = f"about the {word}"
    store.add_chat(chat)
    message = Message(role="user", content=f"{word} prompt", created=created)
    store.add_message(chat.id, message)
    store.save_draft(chat.id, f"{word} draft")
    assert store.flush(10)
    store.close()
    return chat.id


async def fill(daemon: RunningDaemon, word: str) -> dict[str, str]:
    """Store a word everywhere the API stores something; returns the ids."""
    text = word + STORY
    answer = await daemon.tcp.post("/v1/responses", json={"model": "echo:1", "input": text})
    following = await daemon.tcp.post(
        "/v1/responses",
        json={"model": "echo:1", "input": word, "previous_response_id": answer.json()["id"]},
    )
    assert following.status_code == 200, following.text
    line = {
        "custom_id": word,
        "method": "POST",
        "url": "/v1/completions",
        "body": {"model": "echo:1", "prompt": text},
    }
    upload = await daemon.tcp.post(
        "/v1/files",
        files={"file": (f"{word}.jsonl", json.dumps(line).encode())},
        data={"purpose": "batch"},
    )
    body = {
        "input_file_id": upload.json()["id"],
        "endpoint": "/v1/completions",
        "completion_window": "24h",
        "metadata": {"word": word},
    }
    batch = (await daemon.tcp.post("/v1/batches", json=body)).json()
    begun = await daemon.unix.post("/ingle/v1/generations", json={"prompt": text})
    await daemon.events("GET", f"/ingle/v1/generations/{begun.json()['id']}/events")
    async with asyncio.timeout(10):
        while (await daemon.tcp.get(f"/v1/batches/{batch['id']}")).json()["status"] != "completed":
            await asyncio.sleep(0.01)
    await daemon.services.responses.flush()
    return {
        "response": answer.json()["id"],
        "following": following.json()["id"],
        "file": upload.json()["id"],
        "batch": batch["id"],
        "generation": begun.json()["id"],
    }


async def forget(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The output of `ingle forget … --json`."""
    capsys.readouterr()
    status = await asyncio.to_thread(main, ["forget", *arguments, "--yes", "--json"])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return json.loads(captured.out)


def counts(report: Any) -> dict[str, int]:
    return {erased["place"]: erased["count"] for erased in report["erased"]}


@pytest.mark.slow
async def test_forget_all_erases_disk_and_memory(
    run_daemon: DaemonFactory,
    ingle_home: Path,
    traces: Traces,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with run_daemon(create_backend=storing_backend(ingle_home)) as daemon:
        ids = await fill(daemon, OLD)
        keep_chat(ingle_home, OLD, time.time())
        (ingle_home / "chats/history.damaged-1.db").write_bytes(OLD.encode())
        marks = TaintStore(ingle_home / "state/routing/taint.db")
        marks.mark([b"trace"], Sensitivity.NEVER)
        marks.close()
        await daemon.unix.post("/ingle/v1/unload", json={})
        await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1"})
        places = {path.split("/")[-2] for path in traces(OLD)}
        assert {"chats", "responses", "files", "batches", "0" * 64} <= places

        planned = await forget(capsys, "--all", "--dry-run")
        assert planned["dry_run"] is True
        assert traces(OLD)
        report = await forget(capsys, "--all")
        assert report["unloaded"] == ["echo:1"]
        counted = counts(report)
        assert (counted["responses"], counted["files"], counted["batches"]) == (2, 2, 1)
        assert counted["kv"] >= 1
        assert (counted["memory"], counted["marks"]) == (1, 1)
        assert [erased["count"] for erased in report["erased"] if erased["place"] == "chats"] == [
            1,
            1,
        ]
        assert traces(OLD) == []

        gone = [
            f"/v1/responses/{ids['response']}",
            f"/v1/files/{ids['file']}",
            f"/v1/batches/{ids['batch']}",
            f"/ingle/v1/generations/{ids['generation']}",
        ]
        assert [(await daemon.unix.get(path)).status_code for path in gone] == [404] * 4
        again = await forget(capsys, "--all")
        assert counts(again) in ({}, {"logs": 1})
        assert (
            await daemon.tcp.post("/v1/responses", json={"model": "echo:1", "input": NEW})
        ).status_code == 200
        await daemon.services.responses.flush()
        assert traces(NEW), "it goes on keeping what is new"


async def test_forget_by_id_erases_the_whole_conversation_only(
    run_daemon: DaemonFactory,
    ingle_home: Path,
    traces: Traces,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with run_daemon() as daemon:
        old, new = await fill(daemon, OLD), await fill(daemon, NEW)
        report = await forget(capsys, "chat", old["following"], old["file"], old["batch"])
        assert counts(report) == {"responses": 2, "files": 1, "batches": 1}
        left = {path.split("/")[-2] for path in traces(OLD)}
        assert left <= {"files"}, "the batch's output is a separate file"
        assert (await daemon.tcp.get(f"/v1/responses/{old['response']}")).status_code == 404
        assert (await daemon.tcp.get(f"/v1/responses/{new['response']}")).status_code == 200
        assert (await daemon.tcp.get(f"/v1/files/{new['file']}")).status_code == 200


async def test_forget_all_unloads_models(
    run_daemon: DaemonFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    async with run_daemon() as daemon:
        body = {"model": "echo:1", "prompt": OLD}
        assert (await daemon.tcp.post("/v1/completions", json=body)).status_code == 200
        report = await forget(capsys, "--all", "--dry-run")
        assert (report["erased"], report["unloaded"]) == ([], [])
        assert (await forget(capsys, "--all"))["unloaded"] == ["echo:1"]
        assert daemon.services.manager.loaded() == []


async def test_forget_before_and_since(
    run_daemon: DaemonFactory,
    ingle_home: Path,
    traces: Traces,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with run_daemon(create_backend=storing_backend(ingle_home)) as daemon:
        await fill(daemon, OLD)
        keep_chat(ingle_home, NEW, time.time())
        await daemon.unix.post("/ingle/v1/unload", json={})
        for path in (ingle_home / "state").rglob("*"):
            if path.is_file():
                os.utime(path, (1e9, 1e9))
        await fill(daemon, NEW)
        await forget(capsys, "--before", "1h")
        assert traces(OLD) == []
        assert traces(NEW)
        report = await forget(capsys, "--since", "1h")
        assert counts(report)["chats"] == 1
        assert traces(NEW) == []


async def test_forgetting_a_chat_erases_kv_saved_since_it_began(
    run_daemon: DaemonFactory,
    ingle_home: Path,
    traces: Traces,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = keep_chat(ingle_home, NEW, 1e9)
    async with run_daemon(create_backend=storing_backend(ingle_home)) as daemon:
        chat = keep_chat(ingle_home, OLD, time.time())
        begun = await daemon.unix.post("/ingle/v1/generations", json={"prompt": OLD + STORY})
        await daemon.events("GET", f"/ingle/v1/generations/{begun.json()['id']}/events")
        report = await forget(capsys, "chat", chat[:12])
        assert counts(report)["chats"] == 1
        assert counts(report)["kv"] >= 1
        assert traces(OLD) == []
        assert traces(NEW), f"{other} is another chat"


def test_forgetting_a_chat_erases_copies_of_edits_since_it_began(
    ingle_home: Path, traces: Traces, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = keep_chat(ingle_home, OLD, time.time() - 60)
    project = ProjectFolder(ingle_home)
    copies = EditCopies(ingle_home / "state")
    for number, text in enumerate((NEW, OLD)):
        change = FileChange(text.encode(), b"edited")
        copies.keep(f"call-{number}", project, PurePath("notes.txt"), change)
    before, _ = sorted(
        (ingle_home / "state/edits").iterdir(), key=lambda path: OLD.encode() in path.read_bytes()
    )
    os.utime(before, (1e9, 1e9))
    assert main(["forget", "chat", chat[:12], "--yes"]) == 0
    assert "Erased      1 × edits" in capsys.readouterr().out
    assert traces(OLD) == []
    assert traces(NEW)
    assert main(["forget", "--all", "--place", "edits", "--yes"]) == 0
    assert traces(NEW) == []


def test_forget_without_a_daemon(
    ingle_home: Path, traces: Traces, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_chat(ingle_home, OLD, time.time())
    folder = ingle_home / "state/kv" / ("0" * 64)
    folder.mkdir(parents=True)
    (folder / "x.kv").write_text(OLD)
    assert main(["forget", "--all", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "Erased      1 × chats" in out
    assert "Erased      1 × kv" in out
    assert traces(OLD) == []
    assert main(["forget", "--all", "--yes"]) == 0
    assert capsys.readouterr().out == "There is nothing to erase.\n"


@pytest.mark.parametrize(
    ("arguments", "status", "error_text"),
    [
        (["chat"], 2, "Which chat?"),
        (["01a1fb1e", "02b2"], 2, "`ingle forget chat 01a1fb1e`"),
        (["chat", "nobody"], 1, "Nothing is stored for nobody."),
        (["--all", "--since", "1h"], 2, "only one of these"),
        ([], 2, "Say what to forget"),
        (["--since", "yesterday"], 2, "is not a time"),
        (["--since", "5"], 2, "is not a time"),
        (["--all", "--place", "models"], 2, "not a place that can be erased"),
        (["--all"], 1, "Nothing was erased."),
    ],
)
def test_ambiguous_arguments_erase_nothing(
    ingle_home: Path,
    traces: Traces,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    error_text: str,
) -> None:
    keep_chat(ingle_home, OLD, time.time())
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["forget", *arguments]) == status
    assert error_text in capsys.readouterr().err
    assert traces(OLD)


@pytest.mark.parametrize(
    "body", [{}, {"all": True, "ids": ["x"]}, {"all": True, "places": ["/etc"]}, {"al": True}, 7]
)
async def test_api_refuses_ambiguous_requests(daemon: RunningDaemon, body: object) -> None:
    answer = await daemon.unix.post("/ingle/v1/forget", json=body)
    assert answer.status_code == 400


async def test_path_like_ids_erase_no_file(daemon: RunningDaemon, ingle_home: Path) -> None:
    (ingle_home / "state").mkdir(exist_ok=True)
    bystander = ingle_home / "state/keys.json"
    bystander.write_text("{}")
    body = {"ids": ["../keys", "resp_../../keys.json", "keys.json", "\x00"]}
    answer = await daemon.unix.post("/ingle/v1/forget", json=body)
    assert (answer.status_code, answer.json()["erased"]) == (200, [])
    assert bystander.exists()


def unlisted(home: Path, places: list[Path]) -> list[Path]:
    """The files of the home that are below none of these places."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return [path for path in files if not any(path.is_relative_to(place) for place in places)]


async def test_list_covers_every_file_of_the_home(
    run_daemon: DaemonFactory, ingle_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with run_daemon(create_backend=storing_backend(ingle_home)) as daemon:
        await fill(daemon, OLD)
        keep_chat(ingle_home, OLD, time.time())
        await daemon.unix.post("/ingle/v1/unload", json={})
        kept = (await daemon.unix.get("/ingle/v1/kept")).json()
        assert kept["memory"] == {"answers": 1, "models": []}
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["forget", "--list", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)["places"]
        assert listed == kept["places"]
        folders = [Path(place["path"]) for place in listed]
        assert unlisted(ingle_home, [*folders, ingle_home / "runtime"]) == []


async def test_expired_data_is_erased_automatically(
    run_daemon: DaemonFactory, ingle_home: Path, traces: Traces
) -> None:
    day = 86400.0
    settings = {"keep_kv": day, "keep_responses": day, "keep_batches": day, "keep_chats": day}
    async with run_daemon(create_backend=storing_backend(ingle_home), **settings) as daemon:
        await fill(daemon, OLD)
        await daemon.unix.post("/ingle/v1/unload", json={})
        keep_chat(ingle_home, NEW, time.time())
        services = daemon.services
        keeper = RetentionKeeper(services.config, services.batches, services.responses)
        assert await keeper.round() == [], "all is new"
        (unfinished := ingle_home / "state/.keys.json.0123abc_").touch()
        for path in (ingle_home / "state").rglob("*"):
            if path.is_file():
                os.utime(path, (1e9, 1e9))
        gone = {erased.place: erased.count for erased in await keeper.round()}
        assert set(gone) == {"responses", "batches", "kv"}
        assert {path.split("/")[-2] for path in traces(OLD)} == {"files"}
        assert not unfinished.exists()
        assert traces(NEW)


async def test_running_batch_is_cancelled_and_erased(
    run_daemon: DaemonFactory, traces: Traces, capsys: pytest.CaptureFixture[str]
) -> None:
    async with run_daemon(script={"reply": "word " * 2000, "step_seconds": 0.01}) as daemon:
        line = {
            "custom_id": OLD,
            "method": "POST",
            "url": "/v1/completions",
            "body": {"model": "echo:1", "prompt": OLD},
        }
        upload = await daemon.tcp.post(
            "/v1/files",
            files={"file": ("in.jsonl", json.dumps(line).encode())},
            data={"purpose": "batch"},
        )
        body = {
            "input_file_id": upload.json()["id"],
            "endpoint": "/v1/completions",
            "completion_window": "24h",
        }
        batch = (await daemon.tcp.post("/v1/batches", json=body)).json()
        await daemon.until(lambda: daemon.leases == 1)
        report = await forget(capsys, "--all")
        assert counts(report)["batches"] == 1
        assert (await daemon.tcp.get(f"/v1/batches/{batch['id']}")).status_code == 404
        assert traces(OLD) == []
