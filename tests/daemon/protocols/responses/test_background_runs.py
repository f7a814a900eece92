"""Responses made without a client: resumed, cancelled, deleted, and lost with the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import openai

from ingle.daemon.generations.run_registry import MAX_RUNNING

if TYPE_CHECKING:
    from .conftest import Speaking

    Speak = Callable[..., AbstractAsyncContextManager[Speaking]]


async def until(speaking: Speaking, response_id: str, status: str) -> Any:
    async with asyncio.timeout(5):
        while (told := await speaking.get(response_id))["status"] != status:
            await asyncio.sleep(0.005)
    return told


async def test_it_goes_on_without_a_client(speaking: Speaking) -> None:
    speaking.mouth.says("Hel", "lo")
    gate = asyncio.Event()
    speaking.mouth.gate = gate.wait
    told = await speaking.post({"background": True})
    assert (told["status"], told["background"], told["output"]) == ("queued", True, [])
    await until(speaking, told["id"], "in_progress")
    early = await speaking.post({"previous_response_id": told["id"]}, 400)
    assert "still being made" in early["error"]["message"]
    gate.set()
    done = await until(speaking, told["id"], "completed")
    assert done["output"][0]["content"][0]["text"] == "Hello"
    again = await speaking.post({"input": "And?", "previous_response_id": told["id"]})
    assert again["status"] == "completed"


async def test_its_stream_can_be_taken_up_again(speaking: Speaking) -> None:
    speaking.mouth.says("a", "b", "c")
    events = await speaking.stream({"background": True})
    assert [event["type"] for event in events[:3]] == [
        *("response.created", "response.queued", "response.in_progress")
    ]
    response_id = events[0]["response"]["id"]
    for after in (None, 0, 4, len(events) - 1, len(events) + 5):
        params = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
        rest = await speaking.daemon.events("GET", f"/v1/responses/{response_id}", params=params)
        assert [data for _, data in rest] == events[0 if after is None else after + 1 :]
    for wrong in ("-1", "x", "1.5", "9" * 40):
        await speaking.get(response_id, 400, params={"stream": "true", "starting_after": wrong})
    await speaking.get(response_id, 400, params={"stream": "maybe"})


async def test_a_client_that_leaves_comes_back(speaking: Speaking) -> None:
    speaking.mouth.says("a", "b", "c")
    gate = asyncio.Event()
    speaking.mouth.gate = gate.wait
    async with openai.AsyncOpenAI(
        api_key="none", max_retries=0, base_url=f"{speaking.daemon.base_url}/v1"
    ) as client:
        stream = await client.responses.create(
            model="echo:1", input="Hi", background=True, stream=True
        )
        first = await anext(aiter(stream))
        assert first.type == "response.created"
        await stream.close()
        gate.set()
        async with client.responses.stream(response_id=first.response.id) as again:
            types = [event.type async for event in again]
            final = await again.get_final_response()
    assert types[0] == "response.created"
    assert final.output_text == "abc"


async def test_it_can_be_cancelled(speaking: Speaking) -> None:
    speaking.mouth.says("Hel", "lo")
    steps = 0

    async def second_never_comes() -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            await asyncio.Event().wait()

    speaking.mouth.gate = second_never_comes
    told = await speaking.post({"background": True})
    await speaking.daemon.until(lambda: steps == 2)
    path = f"/v1/responses/{told['id']}/cancel"
    for _ in range(2):
        answer = (await speaking.daemon.unix.post(path)).json()
        assert answer["status"] == "cancelled"
        assert answer["output"][0]["content"][0]["text"] == "Hel"
    await speaking.daemon.until(lambda: speaking.daemon.leases == 0)
    assert (await speaking.get(told["id"]))["status"] == "cancelled"


async def test_only_such_a_one_can_be_cancelled_or_streamed_again(speaking: Speaking) -> None:
    told = await speaking.post({})
    answer = await speaking.daemon.unix.post(f"/v1/responses/{told['id']}/cancel")
    assert answer.status_code == 400
    await speaking.get(told["id"], 400, params={"stream": "true"})
    answer = await speaking.daemon.unix.post("/v1/responses/resp_1/cancel")
    assert answer.status_code == 404


async def test_a_deleted_one_ends(speaking: Speaking) -> None:
    speaking.mouth.says("never")
    speaking.mouth.gate = asyncio.Event().wait
    told = await speaking.post({"background": True})
    await until(speaking, told["id"], "in_progress")
    await speaking.daemon.unix.delete(f"/v1/responses/{told['id']}")
    await speaking.daemon.until(lambda: speaking.daemon.leases == 0)
    await speaking.get(told["id"], 404)


async def test_one_that_its_daemon_left_behind_has_failed(speak: Speak) -> None:
    async with speak() as speaking:
        speaking.mouth.says("never")
        speaking.mouth.gate = asyncio.Event().wait
        told = await speaking.post({"background": True})
        folder = speaking.daemon.services.config.paths.responses
        async with asyncio.timeout(5):
            while not (found := list(folder.glob("resp_*.json"))):
                await asyncio.sleep(0.005)
        (path,) = found
        as_it_ran = path.read_bytes()
        await speaking.daemon.unix.delete(f"/v1/responses/{told['id']}")
        await speaking.daemon.until(lambda: not path.exists())
    path.write_bytes(as_it_ran)  # as after a power cut
    async with speak() as speaking:
        lost = await speaking.get(told["id"])
        assert (lost["status"], lost["error"]["code"]) == ("failed", "server_error")
        assert "restarted" in lost["error"]["message"]
        await speaking.get(told["id"], 400, params={"stream": "true"})


async def test_an_unknown_model_is_told_at_once(speaking: Speaking) -> None:
    told = await speaking.post({"background": True, "model": "nobody"}, 404)
    assert told["error"]["code"] == "model_not_found"


async def test_there_is_a_bound(speaking: Speaking) -> None:
    speaking.mouth.says("never")
    speaking.mouth.gate = asyncio.Event().wait
    ids = [(await speaking.post({"background": True}))["id"] for _ in range(MAX_RUNNING)]
    told = await speaking.post({"background": True}, 429)
    assert told["error"]["code"] == "too_many_generations"
    for response_id in ids:
        await speaking.daemon.unix.delete(f"/v1/responses/{response_id}")
