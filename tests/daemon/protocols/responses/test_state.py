"""Stored responses: chains of turns, single items, pages, what is kept and what is not."""

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
from openai.types.responses import CompactedResponse

from ingle.daemon.protocols.responses.items import InputText, Item, MessageItem
from ingle.daemon.protocols.responses.response_state import stored_response
from ingle.daemon.protocols.responses.types import Response
from ingle.daemon.stores.response_store import ResponseStore

from .conftest import ITEM

if TYPE_CHECKING:
    from .conftest import Speaking

    Speak = Callable[..., AbstractAsyncContextManager[Speaking]]


def said(speaking: Speaking) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in speaking.mouth.last.messages or []]


def stored_files(speaking: Speaking) -> list[Path]:
    folder = speaking.daemon.services.config.paths.responses
    return sorted(folder.glob("resp_*.json"))


async def test_a_turn_follows_another(speaking: Speaking) -> None:
    speaking.mouth.says(("think", "Hm."), "One.", ("call", "f", "{}"))
    first = await speaking.post({"instructions": "Count.", "input": "Go"})
    speaking.mouth.says("Two.")
    result = {"type": "function_call_output", "call_id": "call_0", "output": "ok"}
    second = await speaking.post(
        {"input": [result], "previous_response_id": first["id"], "instructions": "Count on."}
    )
    third = await speaking.post({"input": "And?", "previous_response_id": second["id"]})
    # Instructions belong to one request; all else is carried over.
    assert said(speaking) == [
        *(("user", "Go"), ("assistant", "One."), ("tool", "ok")),
        *(("assistant", "Two."), ("user", "And?")),
    ]
    answer = (speaking.mouth.last.messages or [])[1]
    assert (answer.reasoning, answer.tool_calls[0].name) == ("Hm.", "f")
    assert third["previous_response_id"] == second["id"]
    # A conversation can go on from any of its turns.
    await speaking.post({"input": "Else?", "previous_response_id": first["id"]})
    assert said(speaking)[-1] == ("user", "Else?")
    assert len(said(speaking)) == 3


async def test_items_can_be_referred_to(speaking: Speaking) -> None:
    speaking.mouth.says("One.")
    first = await speaking.post({"input": "Go"})
    page = await speaking.get(f"{first['id']}/input_items")
    wanted = [page["data"][0]["id"], first["output"][0]["id"]]
    references = [{"type": "item_reference", "id": wanted[0]}, {"id": wanted[1]}]
    await speaking.post({"input": [*references, {"role": "user", "content": "And?"}]})
    assert said(speaking) == [("user", "Go"), ("assistant", "One."), ("user", "And?")]
    unknown = wanted[0][:-1] + "f"
    told = await speaking.post({"input": [{"type": "item_reference", "id": unknown}]}, 404)
    assert told["error"]["code"] == "item_not_found"


async def test_input_items_come_in_pages(speaking: Speaking) -> None:
    speaking.mouth.says("Yes.")
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
    response = await speaking.post({"input": items})
    path = f"{response['id']}/input_items"
    whole = await speaking.get(path, params={"order": "asc", "limit": 100})
    for item in whole["data"]:
        ITEM.validate_python(item)
    kinds = [item["type"] for item in whole["data"]]
    assert kinds == [item.get("type", "message") for item in items[:-1]]
    assert whole["data"][1]["id"] == "msg_mine"
    assert (whole["first_id"], whole["has_more"]) == (whole["data"][0]["id"], False)
    newest = await speaking.get(path, params={"limit": 4})
    assert newest["data"] == whole["data"][::-1][:4]
    assert newest["has_more"]
    rest = await speaking.get(path, params={"limit": 100, "after": newest["last_id"]})
    assert newest["data"] + rest["data"] == whole["data"][::-1]
    for wrong in ({"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": "no"}, {"limit": "x"}):
        await speaking.get(path, 400, params=wrong)


async def test_responses_survive_a_restart(speak: Speak) -> None:
    async with speak() as speaking:
        speaking.mouth.says("One.")
        first = await speaking.post({"input": "Go"})
    async with speak() as speaking:
        assert await speaking.get(first["id"]) == first
        speaking.mouth.says("Two.")
        await speaking.post({"input": "And?", "previous_response_id": first["id"]})
        assert said(speaking) == [("user", "Go"), ("assistant", "One."), ("user", "And?")]
        path = stored_files(speaking)[0]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_what_is_private_or_not_to_be_stored_is_not(speaking: Speaking) -> None:
    speaking.mouth.says("Secret.")
    answers = [
        await speaking.post({"store": False}),
        await speaking.post({"ingle": {"private": True}}),
        await speaking.post({}, headers={"Ingle-Private": "1"}),
        (await speaking.stream({"store": False}))[-1]["response"],
    ]
    for answer in answers:
        assert answer["store"] is False
        await speaking.get(answer["id"], 404)
        told = await speaking.post({"previous_response_id": answer["id"]}, 400)
        assert told["error"]["code"] == "previous_response_not_found"
    assert not stored_files(speaking)


async def test_a_deleted_response_is_gone_from_the_disk(speaking: Speaking) -> None:
    first = await speaking.post({})
    for status in (200, 404):
        answer = await speaking.daemon.unix.delete(f"/v1/responses/{first['id']}")
        assert answer.status_code == status
    async with asyncio.timeout(5):
        while stored_files(speaking):
            await asyncio.sleep(0.01)


async def test_strange_ids_find_nothing(speaking: Speaking) -> None:
    for name in ("x", "..%2f..%2fetc", "resp_" + "g" * 48, "resp_" + "0" * 48, "%00"):
        await speaking.get(name, 404)
        await speaking.get(f"{name}/input_items", 404)


async def test_a_conversation_that_is_too_long_loses_its_beginning(speaking: Speaking) -> None:
    turns: list[dict[str, Any]] = [{"role": "system", "content": "Rules."}]
    for number in range(20):
        turns.append({"role": "user", "content": f"Question {number}. " + "x" * 60})
        turns.append({"role": "assistant", "content": f"Answer {number}."})
    turns.append({"role": "user", "content": "The last."})
    body = {"input": turns, "max_output_tokens": 4}
    told = await speaking.post(body, 400)
    assert told["error"]["code"] == "context_length_exceeded"
    answer = await speaking.post({**body, "truncation": "auto"})
    assert answer["truncation"] == "auto"
    dropped = answer["ingle"]["dropped_messages"]
    messages = said(speaking)
    assert messages[0] == ("system", "Rules.")
    assert messages[1][0] == "user"
    assert messages[-1] == ("user", "The last.")
    assert len(messages) + dropped == len(turns)
    assert answer["usage"]["total_tokens"] <= 512
    assert answer["usage"]["input_tokens"] > 512 - 4 - 100
    short = await speaking.post({"truncation": "auto", "max_output_tokens": 4})
    assert "ingle" not in short


async def test_the_tokens_of_a_turn_are_counted(speaking: Speaking) -> None:
    first = await speaking.post({"max_output_tokens": 4})
    body = {"model": "echo:1", "input": "And?", "previous_response_id": first["id"]}
    counted = await speaking.daemon.unix.post("/v1/responses/input_tokens", json=body)
    assert counted.json()["object"] == "response.input_tokens"
    second = await speaking.post({**body, "max_output_tokens": 4})
    assert second["usage"]["input_tokens"] == counted.json()["input_tokens"]


@pytest.fixture
async def one_response(speaking: Speaking) -> Response:
    """A real response, to be stored under other ids."""
    return msgspec.json.decode(json.dumps(await speaking.post({})), type=Response)


def put(store: ResponseStore, response: Response, items: list[Item]) -> None:
    """Store a response as the API does."""
    store.put(response.id, stored_response(response, items))


async def test_the_store_is_bounded(one_response: Response, tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "kept", max_count=3, memory_bytes=1)
    ids = [f"resp_{number:048x}" for number in range(5)]
    items: list[Item] = [MessageItem(id="msg_1", role="user", content=[InputText("x" * 1000)])]
    for response_id in ids[:3]:
        put(store, structs.replace(one_response, id=response_id), items)
    assert await store.get(ids[0]) is not None  # used, so that another is the oldest
    for response_id in ids[3:]:
        put(store, structs.replace(one_response, id=response_id), items)
    await store.flush()
    kept = {path.stem for path in (tmp_path / "kept").iterdir()}
    assert kept == {ids[0], ids[3], ids[4]}
    small = ResponseStore(tmp_path / "kept", max_bytes=1, memory_bytes=1)
    put(small, structs.replace(one_response, id=ids[1]), items)
    await small.flush()
    assert [path.stem for path in (tmp_path / "kept").iterdir()] == [ids[1]]


async def test_old_and_damaged_responses_are_not_found(
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


async def test_a_folder_that_cannot_be_written_costs_nothing_but_the_restart(
    one_response: Response, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ResponseStore(tmp_path / "file")
    put(store, one_response, [])
    await store.flush()
    assert await store.get(one_response.id) is not None


async def test_a_conversation_made_short(speaking: Speaking) -> None:
    speaking.mouth.says("One.", ("call", "f", "{}"))
    first = await speaking.post({"input": "Go"})
    speaking.mouth.says("They went.")
    result = {"type": "function_call_output", "call_id": "call_0", "output": "ok"}
    body = {"model": "echo:1", "previous_response_id": first["id"], "input": "And?"}
    short = (await speaking.daemon.unix.post("/v1/responses/compact", json=body)).json()
    asked = speaking.mouth.last
    assert [m.role for m in asked.messages or []] == ["user", "assistant", "user", "user"]
    assert (asked.tool_choice.mode, asked.reasoning.enabled) == ("none", False)
    assert short["usage"]["total_tokens"] == 11
    # The SDK's types know no messages of users in an output, though they say that there are some.
    *messages, summary = short["output"]
    CompactedResponse.model_validate(short | {"output": [summary]})
    for message in messages:
        ITEM.validate_python(message)
    speaking.mouth.says("On.")
    foreign = {"type": "compaction", "encrypted_content": "gAAAAA"}
    await speaking.post({"input": [*short["output"], foreign, result]})
    assert said(speaking) == [
        *(("user", "Go"), ("user", "And?")),
        ("user", "A summary of the conversation up to here:\nThey went."),
        ("tool", "ok"),
    ]
