"""Stored chat completions, called by OpenAI's SDK over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

    from ....conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

CHAT = "/v1/chat/completions"
REPLY = "Hello from the scripted model."
HI: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def client_of(daemon: RunningDaemon) -> openai.AsyncOpenAI:
    import openai

    return openai.AsyncOpenAI(api_key="none", base_url=f"{daemon.base_url}/v1", max_retries=0)


@pytest.fixture
async def client(daemon: RunningDaemon) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with client_of(daemon) as client:
        yield client


async def stored(client: openai.AsyncOpenAI, **fields: Any) -> ChatCompletion:
    body: dict[str, Any] = {"model": "echo:1", "messages": HI, "store": True, **fields}
    create: Any = client.chat.completions.create
    return await create(**body)


async def test_a_stored_chat_is_read_changed_and_deleted(client: openai.AsyncOpenAI) -> None:
    import openai

    chats = client.chat.completions
    made = await stored(client, metadata={"topic": "demo"})
    assert made.metadata == {"topic": "demo"}  # type: ignore[attr-defined]
    assert await chats.retrieve(made.id) == made
    changed = await chats.update(made.id, metadata={"topic": "other"})
    assert changed.metadata == {"topic": "other"}  # type: ignore[attr-defined]
    assert changed.choices == made.choices
    assert await chats.retrieve(made.id) == changed
    deleted = await chats.delete(made.id)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    for call in (chats.retrieve, chats.delete, chats.messages.list):
        with pytest.raises(openai.NotFoundError):
            await call(made.id)
    with pytest.raises(openai.NotFoundError):
        await chats.update(made.id, metadata={})


async def test_messages_are_those_of_the_request(client: openai.AsyncOpenAI) -> None:
    messages: Any = [
        *HI,
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "9"},
        {"role": "user", "content": [{"type": "text", "text": "So"}]},
    ]
    made = await stored(client, messages=messages)
    listed = client.chat.completions.messages.list(made.id, limit=2)
    found = [message.to_dict() async for message in listed]
    assert [message["id"] for message in found] == [f"{made.id}-{n}" for n in range(5)]
    assert [message["role"] for message in found] == [m["role"] for m in messages]
    assert [message["content"] for message in found] == ["Be brief.", "Hi", None, "9", "So"]
    (call,) = found[2]["tool_calls"]  # type: ignore[misc]
    assert call["function"] == {"name": "f", "arguments": "{}"}
    assert found[3]["tool_call_id"] == "c"
    assert found[4]["content_parts"] == [{"type": "text", "text": "So"}]
    newest = client.chat.completions.messages.list(made.id, order="desc")
    assert [m.id async for m in newest] == [m["id"] for m in found][::-1]


async def test_lists_are_filtered_and_cut_into_pages(client: openai.AsyncOpenAI) -> None:
    made = [await stored(client, metadata={"n": str(number % 2)}) for number in range(5)]
    await stored(client, store=False)
    ids = [chat.id for chat in made]
    chats = client.chat.completions
    assert [chat.id async for chat in chats.list(limit=2)] == ids
    assert [chat.id async for chat in chats.list(order="desc", limit=3)] == ids[::-1]
    odd = [chat.id async for chat in chats.list(metadata={"n": "1"}, model="echo:1")]
    assert odd == ids[1::2]
    assert [chat async for chat in chats.list(model="other")] == []
    assert (await chats.list(limit=1)).data[0] == made[0]


@pytest.mark.parametrize("n", [1, 2])
async def test_a_stream_is_stored_whole(client: openai.AsyncOpenAI, n: int) -> None:
    stream: Any = await stored(client, stream=True, n=n)
    ids = {chunk.id async for chunk in stream}
    (chat,) = [chat async for chat in client.chat.completions.list()]
    assert ids == {chat.id}
    assert [choice.message.content for choice in chat.choices] == [REPLY] * n
    assert chat.choices[0].finish_reason == "stop"
    assert chat.usage is not None
    assert chat.usage.completion_tokens == n * (len(REPLY) + 1)  # and the end


async def test_what_was_acknowledged_is_there_after_a_restart(run_daemon: DaemonFactory) -> None:
    async with run_daemon() as daemon, client_of(daemon) as client:
        made = await stored(client)
        await client.chat.completions.update(made.id, metadata={"a": "b"})
    async with run_daemon() as daemon, client_of(daemon) as client:
        (found,) = [chat async for chat in client.chat.completions.list(metadata={"a": "b"})]
        assert found.choices == made.choices


async def test_chats_of_batches_are_stored_only_with_store_true(
    daemon: RunningDaemon, client: openai.AsyncOpenAI
) -> None:
    lines = [
        {
            "custom_id": str(store),
            "method": "POST",
            "url": CHAT,
            "body": {"model": "echo:1", "messages": HI, "store": store},
        }
        for store in (False, True)
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    file = await client.files.create(file=("in.jsonl", content), purpose="batch")
    batch = await client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h"
    )
    async with asyncio.timeout(60):
        while (await client.batches.retrieve(batch.id)).status != "completed":
            await asyncio.sleep(0.02)
    assert len([chat async for chat in client.chat.completions.list()]) == 1


async def test_a_chat_that_cannot_be_stored_is_a_507(
    daemon: RunningDaemon, client: openai.AsyncOpenAI
) -> None:
    import openai

    folder = daemon.services.config.paths.responses
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way")
    with pytest.raises(openai.APIStatusError, match="cannot be") as raised:
        await stored(client)
    assert raised.value.status_code == 507
    folder.unlink()
    assert await stored(client)
    folder.rename(folder.with_name("moved"))
    folder.write_text("in the way")
    with pytest.raises(openai.APIError, match="cannot be"):
        async for _ in await stored(client, stream=True):  # type: ignore[attr-defined]
            pass


async def test_private_chats_are_not_stored(
    daemon: RunningDaemon, client: openai.AsyncOpenAI
) -> None:
    import openai

    for private in (
        {"extra_headers": {"Ingle-Private": "1"}},
        {"extra_body": {"ingle": {"private": True}}},
    ):
        with pytest.raises(openai.BadRequestError, match="private"):
            await stored(client, **private)
        assert await stored(client, store=False, **private)
    assert list(daemon.services.config.paths.responses.glob("*")) == []


async def test_forgetting_removes_a_stored_chat(
    daemon: RunningDaemon, client: openai.AsyncOpenAI
) -> None:
    first, second = [await stored(client) for _ in range(2)]
    answer = await daemon.unix.post("/ingle/v1/forget", json={"ids": [first.id]})
    assert answer.status_code == 200, answer.text
    assert [chat.id async for chat in client.chat.completions.list()] == [second.id]
    await daemon.unix.post("/ingle/v1/forget", json={"all": True})
    assert [chat.id async for chat in client.chat.completions.list()] == []
