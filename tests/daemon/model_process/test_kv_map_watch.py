"""`GET /ingle/v1/events?pages=`: the KV cache map is sent to its subscribers only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

EVENTS = "/ingle/v1/events"
GENERATIONS = "/ingle/v1/generations"
ENDLESS = {"reply": "x" * 400, "step_seconds": 0.01}
Events = AsyncGenerator[tuple[str, Any], None]


async def next_pages(events: Events) -> Any:
    async with asyncio.timeout(20):
        async for name, data in events:
            if name == "pages":
                assert sum(count for _, count in data["runs"]) == data["pages"]
                return data
    pytest.fail("the stream ended without a KV cache map")


async def next_idle(events: Events, conversation: str) -> Any:
    """The first map in which this conversation is cached and nothing is running."""
    while True:
        pages = await next_pages(events)
        known = any(conversation in group["conversations"] for group in pages["groups"])
        if known and not any(group["running"] for group in pages["groups"]):
            return pages


async def generate(daemon: RunningDaemon, text: str, conversation: str, **fields: Any) -> str:
    body = {"messages": [{"role": "user", "content": text}], "conversation": conversation}
    return (await daemon.unix.post(GENERATIONS, json=body | fields)).json()["id"]


def tokens_by_conversations(pages: Any) -> dict[tuple[str, ...], int]:
    return {tuple(sorted(group["conversations"])): group["tokens"] for group in pages["groups"]}


@pytest.mark.slow
async def test_kv_map_is_sent_initially_and_while_requests_run(
    run_daemon: DaemonFactory,
) -> None:
    async with (
        run_daemon(script=ENDLESS, create_backend=WorkerProcess) as daemon,
        aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events,
    ):
        assert (await anext(events))[0] == "gauges"
        await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1"})
        empty = await next_pages(events)
        assert (empty["model"], empty["groups"], empty["page_tokens"]) == ("echo:1", [], 32)
        assert empty["runs"] == [[-1, empty["pages"]]]
        await generate(daemon, "Hello!", "first", max_tokens=200)
        running = await next_pages(events)
        (group,) = running["groups"]
        assert (group["conversations"], group["running"]) == (["first"], True)
        kept = await next_idle(events, "first")
        (group,) = kept["groups"]
        assert (group["conversations"], group["running"]) == (["first"], False)
        # Prompt and answer, except for the last token, whose keys and values are never computed.
        status = (await daemon.unix.get("/ingle/v1/status")).json()["models"][0]
        assert group["tokens"] == status["kv_kept"] > 200


async def test_kv_map_continues_after_a_reload(run_daemon: DaemonFactory) -> None:
    async with (
        run_daemon() as daemon,
        aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo:1")) as events,
    ):
        await anext(events)
        for _ in range(2):
            await generate(daemon, "Hello!", "chat")
            while not (await next_pages(events))["groups"]:
                pass
            await daemon.unix.post("/ingle/v1/unload")


async def test_late_subscriber_gets_the_kv_map_immediately(daemon: RunningDaemon) -> None:
    await generate(daemon, "Hello!", "chat")
    await daemon.until(lambda: any(model.kv_kept for model in daemon.services.manager.loaded()))
    for _ in range(2):
        async with aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events:
            assert tokens_by_conversations(await next_pages(events)).keys() == {("chat",)}


async def test_new_subscriber_does_not_resend_the_kv_map_to_others(daemon: RunningDaemon) -> None:
    await generate(daemon, "Hello!", "chat")
    await daemon.until(lambda: any(model.kv_kept for model in daemon.services.manager.loaded()))
    async with aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events:
        first = await next_pages(events)
        for _ in range(3):
            async with aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as others:
                received = await next_pages(others)
            assert tokens_by_conversations(received) == tokens_by_conversations(first)
            # The idle time is computed when the map is sent, not when it was recorded.
            assert received["groups"][0]["idle_seconds"] > first["groups"][0]["idle_seconds"]
        await daemon.unix.post("/ingle/v1/unload")
        names: list[str] = []
        async for name, data in events:
            names.append(name)
            if name == "model" and data["state"] == "stopped":
                break
        assert "pages" not in names
    async with aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events:
        assert (await anext(events))[0] == "gauges"
        await generate(daemon, "Hello again!", "later")
        while ("later",) not in tokens_by_conversations(pages := await next_pages(events)):
            assert ("chat",) not in tokens_by_conversations(pages)


async def test_kv_map_is_not_sent_to_other_event_streams(daemon: RunningDaemon) -> None:
    async with (
        aclosing(daemon.stream("GET", EVENTS)) as others,
        aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events,
    ):
        await anext(others)
        await anext(events)
        await generate(daemon, "Hello!", "chat")
        await next_pages(events)
        await daemon.unix.post("/ingle/v1/unload")
        received: set[str] = set()
        async for name, data in others:
            received.add(name)
            if name == "model" and data["state"] == "stopped":
                break
    assert received == {"gauges", "model"} or received == {"model"}


async def test_kv_map_of_an_unknown_model_is_404(daemon: RunningDaemon) -> None:
    answer = await daemon.unix.get(f"{EVENTS}?pages=nope")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_worker_stops_sending_the_kv_map_without_subscribers(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(create_backend=WorkerProcess) as daemon:
        await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1"})
        (model,) = daemon.services.manager.models()
        run = daemon.services.manager.find(model)
        assert run is not None
        backend: Any = run.backend
        assert backend._pages_sink is None
        async with aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events:
            await next_pages(events)
            assert backend._pages_sink is not None
        await daemon.until(lambda: backend._pages_sink is None)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"max_tokens": 3}),
        ("/v1/messages", {"max_tokens": 3}),
        ("/v1/responses", {"max_output_tokens": 3, "store": False}),
        ("/v1/completions", {"max_tokens": 3, "prompt": "Hello, who are you, and what is this?"}),
    ],
)
async def test_conversation_can_be_named_in_every_protocol(
    daemon: RunningDaemon, path: str, fields: dict[str, Any]
) -> None:
    hello = [{"role": "user", "content": "Hello, who are you, and what is this?"}]
    prompt_field = "input" if path == "/v1/responses" else "messages"
    body = {"model": "echo", prompt_field: hello, "ingle": {"conversation": "named"}} | fields
    if "prompt" in fields:
        del body["messages"]
    answer = await daemon.unix.post(path, json=body)
    assert answer.status_code == 200, answer.text
    async with aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events:
        assert tokens_by_conversations(await next_pages(events)).keys() == {("named",)}


@pytest.mark.slow
@pytest.mark.model
async def test_kv_map_of_a_real_model_matches_its_counters(
    run_daemon: DaemonFactory, smollm2_path: Any
) -> None:
    story = "The lighthouse keeper counted the ships every evening, one by one. " * 4
    model_path = str(smollm2_path)
    async with (
        run_daemon(create_backend=WorkerProcess, prepares_files=True) as daemon,
        aclosing(daemon.stream("GET", EVENTS, params={"pages": model_path})) as events,
    ):
        await anext(events)
        body = {"model": model_path, "context": 2048}
        assert (await daemon.unix.post("/ingle/v1/load", json=body)).status_code == 200
        await next_pages(events)
        received: list[Any] = []
        for number, text in enumerate((story + "Why?", story + "When did he begin?")):
            await generate(daemon, text, f"chat-{number}", model=model_path, max_tokens=40)
            pages = await next_idle(events, f"chat-{number}")
            (model,) = (await daemon.unix.get("/ingle/v1/status")).json()["models"]
            assert pages["pages"] * pages["page_tokens"] == model["kv_capacity"]
            assert sum(group["tokens"] for group in pages["groups"]) == model["kv_kept"]
            received.append(pages)
        first, both = map(tokens_by_conversations, received)
        assert first.keys() == {("chat-0",)}
        assert both["chat-0", "chat-1"] >= 32
        assert both["chat-1",] > 0
        # While the second request ran, blocks used only by the first may have been evicted.
        assert ("chat-0",) in both or received[1]["memory_tokens"] >= first["chat-0",]


async def test_kv_map_is_sent_with_limited_max_tokens(run_daemon: DaemonFactory) -> None:
    async with (
        run_daemon(max_tokens=3) as daemon,
        aclosing(daemon.stream("GET", f"{EVENTS}?pages=echo")) as events,
    ):
        await generate(daemon, "Hello! " * 9, "chat")
        assert (await next_idle(events, "chat"))["groups"]
