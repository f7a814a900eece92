"""Priorities, client identities and full queues, through a whole daemon."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.base.events import EventSink
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest, Priority
from ingle.daemon.protocols.job_runner import QUIET_LOADING
from tests.harness.local_backend import LocalBackend

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

CHAT = "/v1/chat/completions"
GENERATIONS = "/ingle/v1/generations"
HI = [{"role": "user", "content": "Hi"}]
ENDLESS = {"reply": "x" * 400, "step_seconds": 0.01}


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "echo:1", "messages": HI, **fields}


class RecordingFactory:
    """Creates backends that record the requests they get."""

    def __init__(self) -> None:
        self.requests: list[GenerateRequest] = []

    def __call__(self, spec: LoadSpec) -> LocalBackend:
        requests = self.requests

        class RecordingBackend(LocalBackend):
            async def run(self, request: GenerateRequest, sink: EventSink) -> None:
                requests.append(request)
                await super().run(request, sink)

        return RecordingBackend(spec)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "priority"),
    [
        ({}, Priority.INTERACTIVE),
        ({"service_tier": "auto"}, Priority.INTERACTIVE),
        ({"service_tier": "flex"}, Priority.BATCH),
        ({"ingle": {"priority": "batch"}}, Priority.BATCH),
        ({"service_tier": "flex", "ingle": {"priority": "interactive"}}, Priority.INTERACTIVE),
        ({"service_tier": "flex", "ingle": {}}, Priority.BATCH),
    ],
)
async def test_priority_reaches_the_backend(
    run_daemon: DaemonFactory, fields: dict[str, Any], priority: Priority
) -> None:
    recording = RecordingFactory()
    async with run_daemon(create_backend=recording) as daemon:
        await daemon.tcp.post(CHAT, json=chat(**fields))
        await daemon.tcp.post("/v1/completions", json={"model": "echo:1", "prompt": "Hi", **fields})
    assert [request.priority for request in recording.requests] == [priority] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "client"),
    [
        ({"ingle": {"client": "me"}, "user": "u"}, "me"),
        ({"user": "u", "prompt_cache_key": "k"}, "user u"),
        ({"safety_identifier": "s", "prompt_cache_key": "k"}, "user s"),
        ({"prompt_cache_key": "k"}, "user k"),
        ({"user": {"id": 1}}, "agent editor/1.0"),
        ({}, "agent editor/1.0"),
    ],
)
async def test_client_identity_from_request_fields(
    run_daemon: DaemonFactory, fields: dict[str, Any], client: str
) -> None:
    recording = RecordingFactory()
    async with run_daemon(create_backend=recording) as daemon:
        headers = {"user-agent": "editor/1.0"}
        answer = await daemon.tcp.post(CHAT, json=chat(**fields), headers=headers)
        assert answer.status_code == 200, answer.text
    assert [request.client for request in recording.requests] == [client]


async def test_unix_socket_clients_are_identified_by_process(run_daemon: DaemonFactory) -> None:
    recording = RecordingFactory()
    async with run_daemon(create_backend=recording) as daemon:
        await daemon.unix.post(CHAT, json=chat(user="u"))
        answer = await daemon.unix.post(
            GENERATIONS, json={"messages": HI, "priority": "batch", "client": "me"}
        )
        await daemon.events("GET", f"{GENERATIONS}/{answer.json()['id']}/events")
    first, second = recording.requests
    assert first.client == f"process {os.getpid()}"
    assert (second.client, second.priority) == ("me", Priority.BATCH)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"ingle": {"priority": "urgent"}}, "ingle.priority"),
        ({"ingle": {"client": ""}}, "ingle.client"),
        ({"ingle": {"client": "x" * 201}}, "ingle.client"),
        ({"ingle": 1}, "ingle"),
        ({"service_tier": 1}, "service_tier"),
    ],
)
async def test_invalid_option_is_named(
    daemon: RunningDaemon, fields: dict[str, Any], param: str
) -> None:
    answer = await daemon.tcp.post(CHAT, json=chat(**fields))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.slow
async def test_interactive_request_runs_before_batch_requests(
    run_daemon: DaemonFactory,
) -> None:
    done: list[str] = []

    async def ask(daemon: RunningDaemon, name: str, **fields: Any) -> None:
        answer = await daemon.tcp.post(CHAT, json=chat(max_tokens=20, **fields))
        assert answer.json()["choices"][0]["message"]["content"] == "x" * 20
        done.append(name)

    async with run_daemon(script=ENDLESS, slots=1) as daemon:
        flex = [
            asyncio.create_task(ask(daemon, "batch", service_tier="flex", user=str(user)))
            for user in range(3)
        ]
        await daemon.until(lambda: daemon.leases == 3)
        await ask(daemon, "chat")
        await asyncio.gather(*flex)
    assert done.index("chat") <= 1
    assert done.count("batch") == 3


async def test_full_queue_is_429_in_every_protocol(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=ENDLESS, slots=1, max_queue=1) as daemon:
        running = [asyncio.create_task(daemon.tcp.post(CHAT, json=chat())) for _ in range(2)]
        await daemon.until(lambda: daemon.leases == 2)
        for body in (chat(), chat(stream=True)):
            refused = await daemon.tcp.post(CHAT, json=body)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            error = refused.json()["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
        refused = await daemon.unix.post(GENERATIONS, json={"messages": HI})
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert set(refused.json()["error"]) == {"code", "message", "hint"}
        refused = await daemon.tcp.get("/health/ready?model=echo:1")
        assert refused.status_code == 429
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await daemon.until(lambda: daemon.leases == 0)
        answer = await daemon.tcp.post(CHAT, json=chat(max_tokens=1))
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": HI}),
        ("/v1/messages", {"messages": HI, "max_tokens": 9}),
        ("/v1/responses", {"input": "Hi"}),
        ("/api/chat", {"messages": HI}),
        ("/completion", {"prompt": "Hi"}),
    ],
)
async def test_a_full_queue_has_its_status_in_a_stream_of_a_busy_daemon(
    run_daemon: DaemonFactory, path: str, body: dict[str, Any]
) -> None:
    """The daemon's threads are busy for longer than a stream waits before it announces loading."""
    async with (
        run_daemon(script=ENDLESS, slots=1, max_queue=0) as daemon,
        daemon.tcp.stream("POST", CHAT, json=chat(stream=True)) as stream,
    ):
        lines = stream.aiter_lines()
        await anext(lines)
        idle = threading.Event()
        loop = asyncio.get_running_loop()
        busy = [loop.run_in_executor(None, idle.wait, 20) for _ in range(64)]
        loop.call_later(2 * QUIET_LOADING, idle.set)
        refused = await daemon.tcp.post(path, json={"model": "echo:1", "stream": True, **body})
        await asyncio.gather(*busy)
    assert refused.status_code == 429, refused.text
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "accepts no more" in refused.text


async def test_sdk_raises_rate_limit_error_for_a_full_queue(run_daemon: DaemonFactory) -> None:
    from openai import AsyncOpenAI, RateLimitError

    async with (
        run_daemon(script=ENDLESS, slots=1, max_queue=0) as daemon,
        AsyncOpenAI(base_url=daemon.base_url + "/v1", api_key="x", max_retries=0) as client,
        daemon.tcp.stream("POST", CHAT, json=chat(stream=True)) as stream,
    ):
        lines = stream.aiter_lines()
        await anext(lines)
        with pytest.raises(RateLimitError) as refusal:
            await client.chat.completions.create(model="echo:1", messages=HI)  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert refusal.value.code == "queue_full"


@pytest.mark.slow
async def test_requests_waiting_for_a_load_count_toward_the_queue(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(script={"load_seconds": 1.0}, slots=1, max_queue=1) as daemon:
        waiting = [asyncio.create_task(daemon.tcp.post(CHAT, json=chat())) for _ in range(2)]
        manager = daemon.services.manager
        model = daemon.services.store.resolve("echo:1")
        await daemon.until(lambda: (run := manager.find(model)) is not None and run.waiters == 2)
        assert (await daemon.tcp.post(CHAT, json=chat())).status_code == 429
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200, 200]


async def test_generation_cancelled_at_once_frees_its_queue_place(
    run_daemon: DaemonFactory,
) -> None:
    async with run_daemon(script=ENDLESS, slots=1, max_queue=0) as daemon:
        for _ in range(5):
            answer = await daemon.unix.post(GENERATIONS, json={"messages": HI})
            assert answer.status_code == 202, answer.text
            await daemon.unix.post(f"{GENERATIONS}/{answer.json()['id']}/cancel")


@pytest.mark.slow
async def test_openapi_documents_queueing(daemon: RunningDaemon) -> None:
    page = json.loads((await daemon.tcp.get("/openapi.json")).content)
    assert "429" in page["paths"][CHAT]["post"]["responses"]
    fields = page["components"]["schemas"]["IngleOptions"]["properties"]
    assert {"priority", "client"} <= fields.keys()
    native = page["components"]["schemas"]["GenerationRequest"]["properties"]
    assert {"priority", "client"} <= native.keys()
