"""Background responses: resumed, cancelled, deleted, and lost with the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ingle.daemon.generations.run_registry import MAX_RUNNING

if TYPE_CHECKING:
    from ...conftest import RunningDaemon
    from .conftest import ScriptedDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]
    RunScripted = Callable[..., AbstractAsyncContextManager[ScriptedDaemon]]


async def until(scripted: ScriptedDaemon, response_id: str, status: str) -> Any:
    async with asyncio.timeout(5):
        while (response := await scripted.get(response_id))["status"] != status:
            await asyncio.sleep(0.005)
    return response


async def test_background_response_completes_without_a_client(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("Hel", "lo")
    gate = asyncio.Event()
    scripted.model.gate = gate.wait
    response = await scripted.post({"background": True})
    assert response["status"] in ("queued", "in_progress")
    assert (response["background"], response["output"]) == (True, [])
    await until(scripted, response["id"], "in_progress")
    early = await scripted.post({"previous_response_id": response["id"]}, 400)
    assert "still being made" in early["error"]["message"]
    gate.set()
    done = await until(scripted, response["id"], "completed")
    assert done["output"][0]["content"][0]["text"] == "Hello"
    again = await scripted.post({"input": "And?", "previous_response_id": response["id"]})
    assert again["status"] == "completed"


async def test_a_queued_response_reports_the_sampling_of_its_model(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(sampling={"temperature": 0.3, "top_p": 0.7}) as daemon:
        body = {"model": "echo:1", "input": "Hi", "background": True}
        response = (await daemon.tcp.post("/v1/responses", json=body)).json()
    assert response["status"] in ("queued", "in_progress")
    assert (response["temperature"], response["top_p"]) == (0.3, 0.7)


async def test_background_stream_can_be_resumed(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("a", "b", "c")
    events = await scripted.stream({"background": True})
    assert [event["type"] for event in events[:3]] == [
        *("response.created", "response.queued", "response.in_progress")
    ]
    response_id = events[0]["response"]["id"]
    for after in (None, 0, 4, len(events) - 1, len(events) + 5):
        params = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
        rest = await scripted.daemon.events("GET", f"/v1/responses/{response_id}", params=params)
        assert [data for _, data in rest] == events[0 if after is None else after + 1 :]
    for wrong in ("-1", "x", "1.5", "9" * 40):
        await scripted.get(response_id, 400, params={"stream": "true", "starting_after": wrong})
    await scripted.get(response_id, 400, params={"stream": "maybe"})


async def test_disconnected_client_resumes_the_stream(scripted: ScriptedDaemon) -> None:
    import openai

    scripted.model.reply_with("a", "b", "c")
    gate = asyncio.Event()
    scripted.model.gate = gate.wait
    async with openai.AsyncOpenAI(
        api_key="none", max_retries=0, base_url=f"{scripted.daemon.base_url}/v1"
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


async def test_background_response_can_be_cancelled(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("Hel", "lo")
    steps = 0

    async def block_at_second() -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            await asyncio.Event().wait()

    scripted.model.gate = block_at_second
    response = await scripted.post({"background": True})
    await scripted.daemon.until(lambda: steps == 2)
    path = f"/v1/responses/{response['id']}/cancel"
    for _ in range(2):
        answer = (await scripted.daemon.unix.post(path)).json()
        assert answer["status"] == "cancelled"
        assert answer["output"][0]["content"][0]["text"] == "Hel"
    await scripted.daemon.until(lambda: scripted.daemon.leases == 0)
    assert (await scripted.get(response["id"]))["status"] == "cancelled"


async def test_only_background_responses_can_be_cancelled_or_resumed(
    scripted: ScriptedDaemon,
) -> None:
    response = await scripted.post({})
    answer = await scripted.daemon.unix.post(f"/v1/responses/{response['id']}/cancel")
    assert answer.status_code == 400
    await scripted.get(response["id"], 400, params={"stream": "true"})
    answer = await scripted.daemon.unix.post("/v1/responses/resp_1/cancel")
    assert answer.status_code == 404


async def test_deleting_a_background_response_cancels_it(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("never")
    scripted.model.gate = asyncio.Event().wait
    response = await scripted.post({"background": True})
    await until(scripted, response["id"], "in_progress")
    await scripted.daemon.unix.delete(f"/v1/responses/{response['id']}")
    await scripted.daemon.until(lambda: scripted.daemon.leases == 0)
    await scripted.get(response["id"], 404)


async def test_response_interrupted_by_a_restart_has_failed(run_scripted: RunScripted) -> None:
    async with run_scripted() as scripted:
        scripted.model.reply_with("never")
        scripted.model.gate = asyncio.Event().wait
        response = await scripted.post({"background": True})
        folder = scripted.daemon.services.config.paths.responses
        async with asyncio.timeout(5):
            while not (found := list(folder.glob("resp_*.json"))):
                await asyncio.sleep(0.005)
        (path,) = found
        running_content = path.read_bytes()
        await scripted.daemon.unix.delete(f"/v1/responses/{response['id']}")
        await scripted.daemon.until(lambda: not path.exists())
    path.write_bytes(running_content)  # as after a power failure
    async with run_scripted() as scripted:
        lost = await scripted.get(response["id"])
        assert (lost["status"], lost["error"]["code"]) == ("failed", "server_error")
        assert "restarted" in lost["error"]["message"]
        await scripted.get(response["id"], 400, params={"stream": "true"})


async def test_unknown_model_is_refused_at_once(scripted: ScriptedDaemon) -> None:
    response = await scripted.post({"background": True, "model": "nobody"}, 404)
    assert response["error"]["code"] == "model_not_found"


async def test_number_of_background_responses_is_limited(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("never")
    scripted.model.gate = asyncio.Event().wait
    ids = [(await scripted.post({"background": True}))["id"] for _ in range(MAX_RUNNING)]
    response = await scripted.post({"background": True}, 429)
    assert response["error"]["code"] == "too_many_generations"
    for response_id in ids:
        await scripted.daemon.unix.delete(f"/v1/responses/{response_id}")
