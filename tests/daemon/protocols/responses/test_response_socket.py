"""The Responses API over WebSockets, with the client of the `websockets` package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import websockets

from ingle.daemon.protocols.responses import response_socket

from .conftest import event_type

if TYPE_CHECKING:
    from .conftest import ScriptedDaemon

BODY = {"type": "response.create", "model": "echo:1", "input": "Hi"}
Socket = websockets.ClientConnection


@asynccontextmanager
async def connected(scripted: ScriptedDaemon, **headers: str) -> AsyncGenerator[Socket]:
    async with websockets.unix_connect(
        str(scripted.daemon.socket), "ws://localhost/v1/responses", additional_headers=headers
    ) as socket:
        yield socket


async def answer(socket: Socket, **fields: Any) -> list[dict[str, Any]]:
    """The events that answer one request, each but an error validated."""
    await socket.send(json.dumps(BODY | fields))
    return await rest_of(socket)


async def rest_of(socket: Socket) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while True:
            events.append(json.loads(await socket.recv()))
            kind = events[-1]["type"]
            if kind != "error":
                event_type().validate_python(events[-1])
            if kind in ("error", "response.completed", "response.failed", "response.incomplete"):
                return events


async def test_events_are_those_of_a_stream(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("One ", "two.")
    streamed = await scripted.stream({})
    async with connected(scripted) as socket:
        events = await answer(socket)
    assert [event["type"] for event in events] == [event["type"] for event in streamed]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    response = events[-1]["response"]
    assert response["output"][0]["content"][0]["text"] == "One two."
    assert await scripted.get(response["id"]) == response


async def test_unstored_response_is_continued_on_its_connection_only(
    scripted: ScriptedDaemon,
) -> None:
    async with connected(scripted) as socket:
        scripted.model.reply_with("Noted.")
        first = (await answer(socket, store=False, input="Cobalt"))[-1]["response"]
        second = (await answer(socket, store=False, previous_response_id=first["id"]))[-1]
        third = (await answer(socket, store=False, previous_response_id=second["response"]["id"]))[
            -1
        ]
        assert third["type"] == "response.completed"
        texts = [message.content for message in scripted.model.last_request.messages or []]
        assert texts == ["Cobalt", "Noted.", "Hi", "Noted.", "Hi"]
    await scripted.get(first["id"], 404)
    async with connected(scripted) as socket:
        (error,) = await answer(socket, store=False, previous_response_id=first["id"])
        assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")
        assert (await answer(socket))[-1]["type"] == "response.completed"


async def test_failed_continuation_forgets_the_response_before_it(
    scripted: ScriptedDaemon,
) -> None:
    output = {"type": "function_call_output", "call_id": "call_x", "output": "ok"}
    async with connected(scripted) as socket:
        scripted.model.reply_with("Noted.")
        first = (await answer(socket, store=False))[-1]["response"]
        again = {"store": False, "previous_response_id": first["id"]}
        (error,) = await answer(socket, input=[output], **again)
        assert "call_x" in error["error"]["message"]
        (error,) = await answer(socket, **again)
        assert error["error"]["code"] == "previous_response_not_found"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{", "not JSON"),
        ('{"type": "session.update"}', "type"),
        (json.dumps(BODY | {"background": True}), "background"),
        (json.dumps(BODY | {"model": "absent"}), "absent"),
        (json.dumps(BODY | {"min_tokens": 5}), "min_tokens"),
        (json.dumps(BODY | {"temperature": "hot"}), "temperature"),
        (b"\xff\xfe", "UTF-8"),
    ],
)
async def test_wrong_event_is_an_error_and_the_connection_goes_on(
    scripted: ScriptedDaemon, message: str | bytes, words: str
) -> None:
    async with connected(scripted) as socket:
        await socket.send(message)
        (error,) = await rest_of(socket)
        assert error["type"] == "error"
        assert words in error["error"]["message"]
        assert 400 <= error["status"] < 500
        scripted.model.reply_with("Still here.")
        assert (await answer(socket))[-1]["type"] == "response.completed"


async def test_requests_sent_at_once_are_answered_in_order(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("One.")
    async with connected(scripted) as socket:
        for text in ("first", "second", "third"):
            await socket.send(json.dumps(BODY | {"input": text}))
        for _ in range(3):
            assert (await rest_of(socket))[-1]["type"] == "response.completed"
    asked = [(request.messages or [])[-1].content for request in scripted.model.requests]
    assert asked == ["first", "second", "third"]


@pytest.mark.parametrize("waiting", [0, 3])
async def test_client_that_leaves_cancels_its_response(
    scripted: ScriptedDaemon, waiting: int
) -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    scripted.model.gate = gate
    scripted.model.reply_with("One.")
    async with connected(scripted) as socket:
        for _ in range(1 + waiting):
            await socket.send(json.dumps(BODY))
        await asyncio.wait_for(entered.wait(), 20)
    await asyncio.wait_for(cancelled.wait(), 20)
    assert len(scripted.model.requests) == 1


async def test_more_events_than_may_wait_are_read_later(
    scripted: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_socket, "WAITING_BYTES", 3000)
    scripted.model.reply_with("One.")
    async with connected(scripted) as socket:
        for _ in range(12):
            await socket.send(json.dumps(BODY))
        for _ in range(12):
            assert (await rest_of(socket))[-1]["type"] == "response.completed"


async def test_failure_after_the_beginning_ends_the_response(scripted: ScriptedDaemon) -> None:
    scripted.model.reply_with("One.")

    async def fail() -> None:
        raise RuntimeError("broken")

    scripted.model.gate = fail
    async with connected(scripted) as socket:
        events = await answer(socket)
        assert events[-1]["type"] == "response.failed"
        scripted.model.gate = None
        assert (await answer(socket))[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Origin": "https://example.com"}, 403), ({"Host": "evil.example"}, 403)],
)
async def test_web_page_cannot_connect(
    scripted: ScriptedDaemon, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with connected(scripted, **headers):
            pass
    assert refused.value.response.status_code == status
    assert b'"error"' in (refused.value.response.body or b"")


async def test_other_paths_have_no_web_socket(scripted: ScriptedDaemon) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.unix_connect(str(scripted.daemon.socket), "ws://localhost/v1/models"):
            pass
    assert refused.value.response.status_code == 200  # answered in HTTP/1.1
