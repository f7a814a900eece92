"""Stored responses: conversations, item references, pagination, retention limits and privacy."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import structs

from ingle.daemon.errors import StorageUnusable
from ingle.daemon.protocols.responses.items import InputText, Item, MessageItem
from ingle.daemon.protocols.responses.response_state import stored_response
from ingle.daemon.protocols.responses.types import Response
from ingle.daemon.stores.response_store import ResponseStore

from .conftest import item_type

if TYPE_CHECKING:
    from .conftest import ScriptedDaemon

    RunScripted = Callable[..., AbstractAsyncContextManager[ScriptedDaemon]]


def model_input(scripted: ScriptedDaemon) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in scripted.model.last_request.messages or []]


def stored_files(scripted: ScriptedDaemon) -> list[Path]:
    folder = scripted.daemon.services.config.paths.responses
    return sorted(folder.glob("resp_*.json"))


async def test_previous_response_id_continues_a_conversation(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with(("think", "Hm."), "One.", ("call", "f", "{}"))
    first = await scripted.post({"instructions": "Count.", "input": "Go"})
    scripted.model.reply_with("Two.")
    result = {"type": "function_call_output", "call_id": "call_0", "output": "ok"}
    second = await scripted.post(
        {"input": [result], "previous_response_id": first["id"], "instructions": "Count on."}
    )
    third = await scripted.post({"input": "And?", "previous_response_id": second["id"]})
    # Instructions belong to one request; everything else is carried over.
    assert model_input(scripted) == [
        *(("user", "Go"), ("assistant", "One."), ("tool", "ok")),
        *(("assistant", "Two."), ("user", "And?")),
    ]
    answer = (scripted.model.last_request.messages or [])[1]
    assert (answer.reasoning, answer.tool_calls[0].name) == ("Hm.", "f")
    assert third["previous_response_id"] == second["id"]
    # A conversation can branch from any of its turns.
    await scripted.post({"input": "Else?", "previous_response_id": first["id"]})
    assert model_input(scripted)[-1] == ("user", "Else?")
    assert len(model_input(scripted)) == 3


async def test_item_references(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("One.")
    first = await scripted.post({"input": "Go"})
    page = await scripted.get(f"{first['id']}/input_items")
    item_ids = [page["data"][0]["id"], first["output"][0]["id"]]
    references = [{"type": "item_reference", "id": item_ids[0]}, {"id": item_ids[1]}]
    await scripted.post({"input": [*references, {"role": "user", "content": "And?"}]})
    assert model_input(scripted) == [("user", "Go"), ("assistant", "One."), ("user", "And?")]
    unknown = item_ids[0][:-1] + "f"
    refused = await scripted.post({"input": [{"type": "item_reference", "id": unknown}]}, 404)
    assert refused["error"]["code"] == "item_not_found"


async def test_input_items_are_paginated(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("Yes.")
    items: list[dict[str, Any]] = [
        {"role": "system", "content": "Rules."},
        {"role": "user", "content": "Hi", "id": "msg_mine"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "H"}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
        {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "y"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "z"},
        {
            "type": "local_shell_call",
            "call_id": "c",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ]
    response = await scripted.post({"input": items})
    path = f"{response['id']}/input_items"
    whole = await scripted.get(path, params={"order": "asc", "limit": 100})
    for item in whole["data"]:
        item_type().validate_python(item)
    kinds = [item["type"] for item in whole["data"]]
    assert kinds == [item.get("type", "message") for item in items[:-1]]
    assert whole["data"][1]["id"] == "msg_mine"
    assert (whole["first_id"], whole["has_more"]) == (whole["data"][0]["id"], False)
    newest = await scripted.get(path, params={"limit": 4})
    assert newest["data"] == whole["data"][::-1][:4]
    assert newest["has_more"]
    rest = await scripted.get(path, params={"limit": 100, "after": newest["last_id"]})
    assert newest["data"] + rest["data"] == whole["data"][::-1]
    for wrong in ({"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": "no"}, {"limit": "x"}):
        await scripted.get(path, 400, params=wrong)


async def test_responses_survive_a_restart(run_scripted: RunScripted) -> None:
    async with run_scripted() as scripted:
        scripted.model.reply_with("One.")
        first = await scripted.post({"input": "Go"})
    async with run_scripted() as scripted:
        assert await scripted.get(first["id"]) == first
        scripted.model.reply_with("Two.")
        await scripted.post({"input": "And?", "previous_response_id": first["id"]})
        assert model_input(scripted) == [("user", "Go"), ("assistant", "One."), ("user", "And?")]
        path = stored_files(scripted)[0]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_private_and_store_false_responses_are_not_stored(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("Secret.")
    answers = [
        await scripted.post({"store": False}),
        await scripted.post({"ingle": {"private": True}}),
        await scripted.post({}, headers={"Ingle-Private": "1"}),
        (await scripted.stream({"store": False}))[-1]["response"],
    ]
    for answer in answers:
        assert answer["store"] is False
        await scripted.get(answer["id"], 404)
        refused = await scripted.post({"previous_response_id": answer["id"]}, 400)
        assert refused["error"]["code"] == "previous_response_not_found"
    assert not stored_files(scripted)


async def test_deleted_response_is_removed_from_disk(scripted: ScriptedDaemon) -> None:
    first = await scripted.post({})
    for status in (200, 404):
        answer = await scripted.daemon.unix.delete(f"/v1/responses/{first['id']}")
        assert answer.status_code == status
    async with asyncio.timeout(5):
        while stored_files(scripted):
            await asyncio.sleep(0.01)


async def test_invalid_response_ids_are_not_found(scripted: ScriptedDaemon) -> None:
    for name in ("x", "..%2f..%2fetc", "resp_" + "g" * 48, "resp_" + "0" * 48, "%00"):
        await scripted.get(name, 404)
        await scripted.get(f"{name}/input_items", 404)


async def test_truncation_auto_drops_the_oldest_messages(scripted: ScriptedDaemon) -> None:
    turns: list[dict[str, Any]] = [{"role": "system", "content": "Rules."}]
    for number in range(20):
        turns.append({"role": "user", "content": f"Question {number}. " + "x" * 60})
        turns.append({"role": "assistant", "content": f"Answer {number}."})
    turns.append({"role": "user", "content": "The last."})
    body = {"input": turns, "max_output_tokens": 4}
    refused = await scripted.post(body, 400)
    assert refused["error"]["code"] == "context_length_exceeded"
    answer = await scripted.post({**body, "truncation": "auto"})
    assert answer["truncation"] == "auto"
    dropped = answer["ingle"]["dropped_messages"]
    messages = model_input(scripted)
    assert messages[0] == ("system", "Rules.")
    assert messages[1][0] == "user"
    assert messages[-1] == ("user", "The last.")
    assert len(messages) + dropped == len(turns)
    assert answer["usage"]["total_tokens"] <= 512
    assert answer["usage"]["input_tokens"] > 512 - 4 - 100
    short = await scripted.post({"truncation": "auto", "max_output_tokens": 4})
    assert "ingle" not in short


async def test_input_tokens_equal_those_of_the_turn(scripted: ScriptedDaemon) -> None:
    first = await scripted.post({"max_output_tokens": 4})
    body = {"model": "echo:1", "input": "And?", "previous_response_id": first["id"]}
    counted = await scripted.daemon.unix.post("/v1/responses/input_tokens", json=body)
    assert counted.json()["object"] == "response.input_tokens"
    second = await scripted.post({**body, "max_output_tokens": 4})
    assert second["usage"]["input_tokens"] == counted.json()["input_tokens"]


@pytest.fixture
async def one_response(scripted: ScriptedDaemon) -> Response:
    """A real response, to be stored under other ids."""
    return msgspec.json.decode(json.dumps(await scripted.post({})), type=Response)


def put(store: ResponseStore, response: Response, items: list[Item]) -> None:
    """Store a response as the API does."""
    store.put(response.id, stored_response(response, items))


async def test_store_evicts_beyond_its_limits(one_response: Response, tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "kept", max_count=3, memory_bytes=1)
    ids = [f"resp_{number:048x}" for number in range(5)]
    items: list[Item] = [MessageItem(id="msg_1", role="user", content=[InputText("x" * 1000)])]
    for response_id in ids[:3]:
        put(store, structs.replace(one_response, id=response_id), items)
    assert await store.get(ids[0]) is not None  # now the most recently used
    for response_id in ids[3:]:
        put(store, structs.replace(one_response, id=response_id), items)
    await store.flush()
    kept = {path.stem for path in (tmp_path / "kept").iterdir()}
    assert kept == {ids[0], ids[3], ids[4]}
    for path in (tmp_path / "kept").iterdir():
        path.unlink()
    in_memory = [await store.get(response_id) is not None for response_id in ids]
    assert in_memory == [False] * 4 + [True], "one response that is larger than the limit"
    small = ResponseStore(tmp_path / "kept", max_bytes=1, memory_bytes=1)
    put(small, structs.replace(one_response, id=ids[1]), items)
    await small.flush()
    assert [path.stem for path in (tmp_path / "kept").iterdir()] == [ids[1]]


async def test_expired_and_damaged_responses_are_not_found(
    one_response: Response, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    store = ResponseStore(folder)
    old, damaged = f"resp_{1:048x}", f"resp_{2:048x}"
    for response_id in (old, damaged):
        put(store, structs.replace(one_response, id=response_id), [])
    await store.flush()
    os.utime(folder / f"{old}.json", (1, 1))
    (folder / f"{damaged}.json").write_text("{")
    fresh = ResponseStore(folder)
    assert await fresh.get(old) is None
    assert await fresh.get(damaged) is None
    assert not (folder / f"{old}.json").exists()


async def test_response_that_cannot_be_written_is_not_stored(
    one_response: Response, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ResponseStore(tmp_path / "file")
    await store.check_room()
    put(store, one_response, [])
    with pytest.raises(StorageUnusable, match="cannot be"):
        await store.flush(one_response.id)
    assert await store.get(one_response.id) is None
    with pytest.raises(StorageUnusable):
        await store.check_room()
    (tmp_path / "file").unlink()
    (tmp_path / "file").mkdir(0o700)
    await store.check_room()
    assert list((tmp_path / "file").iterdir()) == [], "what was tried is gone"
    put(store, one_response, [])
    await store.flush(one_response.id)
    assert await store.get(one_response.id) is not None


@pytest.fixture
def unwritable(scripted: ScriptedDaemon) -> Path:
    """The folder of the stored responses, where a file is in the way."""
    folder = scripted.daemon.services.config.paths.responses
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way")
    return folder


@pytest.mark.parametrize("body", [{}, {"store": True}, {"background": True}])
async def test_response_that_cannot_be_stored_is_a_507(
    scripted: ScriptedDaemon, unwritable: Path, body: dict[str, Any]
) -> None:
    scripted.model.reply_with("One.")
    error = (await scripted.post(body, 507))["error"]
    assert error["code"] == "storage_unusable"
    assert "'store': false" in error["message"]
    asked = len(scripted.model.requests)
    await scripted.post(body, 507)  # found out before a second answer is generated
    assert len(scripted.model.requests) == asked
    scripted.model.reply_with("Two.")
    assert (await scripted.post({"store": False}))["status"] == "completed"
    await asyncio.to_thread(unwritable.unlink)
    scripted.model.reply_with("Three.")
    kept = await scripted.post({})
    assert (await scripted.get(kept["id"]))["status"] == "completed"


async def test_stream_that_cannot_be_stored_ends_as_failed(
    scripted: ScriptedDaemon, unwritable: Path
) -> None:
    scripted.model.reply_with("One.")
    events = await scripted.stream({})
    assert events[-1]["type"] == "response.failed"
    assert "cannot be" in events[-1]["response"]["error"]["message"]
    assert "response.completed" not in {event["type"] for event in events}
    await scripted.get(events[-1]["response"]["id"], 404)


async def test_background_response_that_cannot_be_stored_at_its_end_fails(
    scripted: ScriptedDaemon,
) -> None:
    gate = asyncio.Event()
    scripted.model.gate = gate.wait
    scripted.model.reply_with("One.")
    response = await scripted.post({"background": True})
    folder = scripted.daemon.services.config.paths.responses
    await asyncio.to_thread(folder.rename, folder.with_name("moved"))
    await asyncio.to_thread(folder.write_text, "in the way")
    gate.set()
    while (found := await scripted.get(response["id"]))["status"] in ("queued", "in_progress"):
        await asyncio.sleep(0.01)
    assert found["status"] == "failed"
    assert "cannot be" in found["error"]["message"]


async def test_compact_endpoint_and_compaction_items(scripted: ScriptedDaemon) -> None:
    from openai.types.responses import CompactedResponse

    scripted.model.reply_with("One.", ("call", "f", "{}"))
    first = await scripted.post({"input": "Go"})
    scripted.model.reply_with("They went.")
    result = {"type": "function_call_output", "call_id": "call_0", "output": "ok"}
    body = {"model": "echo:1", "previous_response_id": first["id"], "input": "And?"}
    short = (await scripted.daemon.unix.post("/v1/responses/compact", json=body)).json()
    request = scripted.model.last_request
    assert [m.role for m in request.messages or []] == ["user", "assistant", "user", "user"]
    assert (request.tool_choice.mode, request.reasoning.enabled) == ("none", False)
    assert short["usage"]["total_tokens"] == 11
    unnamed = await scripted.daemon.unix.post("/v1/responses/compact", json={"input": "Go"})
    assert (unnamed.status_code, unnamed.json()["error"]["param"]) == (400, "model")
    # The SDK's output types lack user messages, though its documentation lists them.
    *messages, summary = short["output"]
    CompactedResponse.model_validate(short | {"output": [summary]})
    for message in messages:
        item_type().validate_python(message)
    scripted.model.reply_with("On.")
    foreign = {"type": "compaction", "encrypted_content": "gAAAAA"}
    await scripted.post({"input": [*short["output"], foreign, result]})
    assert model_input(scripted) == [
        *(("user", "Go"), ("user", "And?")),
        ("user", "A summary of the conversation up to here:\nThey went."),
        ("tool", "ok"),
    ]
