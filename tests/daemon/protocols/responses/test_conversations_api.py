"""Conversations and the responses that extend them, called by OpenAI's SDK over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import openai

    from .conftest import ScriptedDaemon

    ScriptedFactory = Callable[..., AbstractAsyncContextManager[ScriptedDaemon]]

HI: Any = {"type": "message", "role": "user", "content": "Hi"}


def client_of(scripted: ScriptedDaemon) -> openai.AsyncOpenAI:
    import openai

    base_url = f"{scripted.daemon.base_url}/v1"
    return openai.AsyncOpenAI(api_key="none", base_url=base_url, max_retries=0)


@pytest.fixture
async def client(scripted: ScriptedDaemon) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with client_of(scripted) as client:
        yield client


def said(scripted: ScriptedDaemon) -> list[tuple[str, str]]:
    """What the model was sent last."""
    return [(m.role, m.content) for m in scripted.model.last_request.messages or []]


async def texts(client: openai.AsyncOpenAI, conversation_id: str) -> list[str]:
    """The texts of a conversation's messages, the first one first."""
    found: list[str] = []
    async for item in client.conversations.items.list(conversation_id, order="asc", limit=2):
        assert item.type == "message"
        found += [getattr(part, "text", "") for part in item.content]
    return found


async def test_a_conversation_is_created_changed_and_deleted(client: openai.AsyncOpenAI) -> None:
    import openai

    made = await client.conversations.create(items=[HI], metadata={"topic": "demo"})
    assert made.id.startswith("conv_")
    assert (await client.conversations.retrieve(made.id)) == made
    changed = await client.conversations.update(made.id, metadata={"topic": "other"})
    assert (changed.id, changed.metadata) == (made.id, {"topic": "other"})
    assert await texts(client, made.id) == ["Hi"]
    deleted = await client.conversations.delete(made.id)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(made.id)
    with pytest.raises(openai.NotFoundError):
        await client.conversations.items.create(made.id, items=[HI])
    with pytest.raises(openai.NotFoundError):
        await client.conversations.delete(made.id)


async def test_items_are_added_listed_found_and_removed(client: openai.AsyncOpenAI) -> None:
    import openai

    made = await client.conversations.create()
    items: Any = [HI | {"content": f"{number}"} for number in range(5)]
    items.append({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})
    items.append({"type": "function_call_output", "call_id": "c", "output": "9"})
    added = await client.conversations.items.create(made.id, items=items)
    assert (len(added.data), added.has_more) == (7, False)
    ids = [item.id for item in added.data]
    assert len(set(ids)) == 7
    listed = [item.id async for item in client.conversations.items.list(made.id, limit=3)]
    assert listed == ids[::-1]
    first = ids[0] or ""
    found = await client.conversations.items.retrieve(first, conversation_id=made.id)
    assert found == added.data[0]
    left = await client.conversations.items.delete(first, conversation_id=made.id)
    assert left.id == made.id
    with pytest.raises(openai.NotFoundError):
        await client.conversations.items.retrieve(first, conversation_id=made.id)
    again = await client.conversations.items.create(made.id, items=[HI])
    assert again.data[0].id not in ids
    with pytest.raises(openai.BadRequestError, match="already has an item"):
        await client.conversations.items.create(made.id, items=[added.data[1].to_dict()])  # type: ignore[list-item]


@pytest.mark.parametrize("how", [{}, {"store": False}, {"stream": True}, {"background": True}])
async def test_responses_read_and_extend_their_conversation(
    scripted: ScriptedDaemon, client: openai.AsyncOpenAI, how: dict[str, Any]
) -> None:
    made = await client.conversations.create(items=[HI])
    scripted.model.reply_with("Hello.")
    body = {"model": "echo:1", "conversation": made.id, "input": "Who?", **how}
    if how.get("stream"):
        events = await scripted.stream(body)
        assert events[-1]["response"]["conversation"] == {"id": made.id}
    else:
        answer = await scripted.post(body)
        while answer["status"] in ("queued", "in_progress"):
            answer = await scripted.get(answer["id"])
        assert answer["conversation"] == {"id": made.id}
    assert said(scripted) == [("user", "Hi"), ("user", "Who?")]
    assert await texts(client, made.id) == ["Hi", "Who?", "Hello."]
    scripted.model.reply_with("Me.")
    await client.responses.create(model="echo:1", conversation={"id": made.id})
    assert said(scripted)[-1] == ("assistant", "Hello.")
    assert await texts(client, made.id) == ["Hi", "Who?", "Hello.", "Me."]


async def test_what_was_acknowledged_is_there_after_a_restart(
    run_scripted: ScriptedFactory,
) -> None:
    async with run_scripted() as scripted, client_of(scripted) as client:
        made = await client.conversations.create(metadata={"a": "b"})
        scripted.model.reply_with("One.")
        await scripted.post({"conversation": made.id})
        folder = scripted.daemon.services.config.paths.responses
        assert f"{made.id}.json" in {path.name for path in folder.iterdir()}
    async with run_scripted() as scripted, client_of(scripted) as client:
        assert (await client.conversations.retrieve(made.id)) == made
        assert await texts(client, made.id) == ["Hi", "One."]


async def test_responses_at_once_lose_nothing_of_each_other(
    scripted: ScriptedDaemon, client: openai.AsyncOpenAI
) -> None:
    made = await client.conversations.create()
    scripted.model.reply_with("Yes.")
    bodies = [{"conversation": made.id, "input": f"{number}"} for number in range(8)]
    await asyncio.gather(
        *map(scripted.post, bodies),
        *(client.conversations.items.create(made.id, items=[HI]) for _ in range(4)),
    )
    found = await texts(client, made.id)
    assert sorted(found) == sorted([*map(str, range(8)), *["Yes."] * 8, *["Hi"] * 4])
    for number in range(8):  # a question and its answer stay together
        assert found[found.index(str(number)) + 1] == "Yes."


async def test_failed_responses_leave_the_conversation_as_it_was(
    scripted: ScriptedDaemon, client: openai.AsyncOpenAI
) -> None:
    made = await client.conversations.create(items=[HI])
    folder = scripted.daemon.services.config.paths.responses
    scripted.model.reply_with("Lost.")
    await asyncio.to_thread(folder.rename, folder.with_name("moved"))
    await asyncio.to_thread(folder.write_text, "in the way")
    for body in ({"store": False}, {}):
        error = (await scripted.post({"conversation": made.id, **body}, 507))["error"]
        assert error["code"] == "storage_unusable"
    created = await scripted.daemon.unix.post("/v1/conversations", json={})
    assert created.status_code == 507
    await asyncio.to_thread(folder.unlink)
    await asyncio.to_thread(folder.with_name("moved").rename, folder)
    assert await texts(client, made.id) == ["Hi"]


async def test_items_of_conversations_can_be_referred_to(
    scripted: ScriptedDaemon, client: openai.AsyncOpenAI
) -> None:
    made = await client.conversations.create(items=[HI])
    item = (await client.conversations.items.list(made.id)).data[0]
    await scripted.post({"input": [{"type": "item_reference", "id": item.id}]})
    assert said(scripted) == [("user", "Hi")]
    scripted.model.reply_with("Hello.")
    answer = await scripted.post({"input": "Who?"})
    reference: Any = {"type": "item_reference", "id": answer["output"][0]["id"]}
    await client.conversations.items.create(made.id, items=[reference])
    assert await texts(client, made.id) == ["Hi", "Hello."]


@pytest.mark.parametrize("chosen", ["conversation", "response"])
async def test_forgetting_one_forgets_the_conversation_with_its_responses(
    scripted: ScriptedDaemon, client: openai.AsyncOpenAI, chosen: str
) -> None:
    made = await client.conversations.create()
    first = await scripted.post({"conversation": made.id, "input": "1"})
    second = await scripted.post({"conversation": made.id, "input": "2"})
    other = await scripted.post({})
    wanted = made.id if chosen == "conversation" else first["id"]
    answer = await scripted.daemon.unix.post("/ingle/v1/forget", json={"ids": [wanted]})
    assert answer.json()["erased"][0]["count"] == 3
    assert (await scripted.daemon.tcp.get(f"/v1/conversations/{made.id}")).status_code == 404
    for name, status in ((first["id"], 404), (second["id"], 404), (other["id"], 200)):
        await scripted.get(name, status)


async def test_private_requests_leave_nothing(scripted: ScriptedDaemon) -> None:
    private = {"Ingle-Private": "1"}
    tcp = scripted.daemon.tcp
    bodies: dict[str, Any] = {
        "/v1/conversations": {"items": [HI]},
        "/v1/responses": {"model": "echo:1", "conversation": "conv_1", "input": "x"},
        "/v1/messages/batches": {"requests": [{"custom_id": "a", "params": {}}]},
    }
    for path, body in bodies.items():
        answer = await tcp.post(path, json=body, headers=private)
        assert answer.status_code == 400, answer.text
        assert "rivate" in answer.json()["error"]["message"]
    paths = scripted.daemon.services.config.paths
    assert [*paths.responses.glob("*"), *paths.files.glob("*")] == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"items": 1}, "items"),
        ({"items": [{"type": "message"}]}, "role"),
        ({"items": [{"type": "image_generation_call", "id": "x"}]}, "items[0]"),
        ({"items": [{"type": "item_reference", "id": "msg_1"}]}, "msg_1"),
        ({"items": [HI | {"id": "a"}, HI | {"id": "a"}]}, "already"),
        ({"items": [HI] * 257}, "items"),
        ({"metadata": {"a": 1}}, "metadata"),
    ],
)
async def test_invalid_conversations_are_refused(
    scripted: ScriptedDaemon, body: dict[str, Any], told: str
) -> None:
    answer = await scripted.daemon.tcp.post("/v1/conversations", json=body)
    assert answer.status_code in (400, 404)
    assert told in answer.json()["error"]["message"]


async def test_invalid_references_to_conversations_are_refused(
    scripted: ScriptedDaemon, client: openai.AsyncOpenAI
) -> None:
    made = await client.conversations.create(items=[HI | {"id": "msg_own"}])
    both = {"conversation": made.id, "previous_response_id": "resp_1"}
    assert "exclude" in (await scripted.post(both, 400))["error"]["message"]
    again = {"conversation": made.id, "input": [HI | {"id": "msg_own"}]}
    assert "already" in (await scripted.post(again, 400))["error"]["message"]
    for name in ("conv_" + "0" * 48, "resp_" + "0" * 48, "conv_../x", ""):
        error = (await scripted.post({"conversation": name}, 404))["error"]
        assert error["code"] == "conversation_not_found"
    response = await scripted.post({})
    await scripted.post({"conversation": response["id"]}, 404)
    await scripted.get(made.id, 404)
    unused = await scripted.daemon.tcp.post("/v1/conversations", json={"title": "x"})
    assert unused.headers["ingle-ignored"].startswith("title")
