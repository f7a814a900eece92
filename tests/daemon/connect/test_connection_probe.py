"""Connection probes against a real daemon with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.connect.connect_target import ConnectTarget
from ingle.daemon.connect.connection_probe import ConnectionProber, ProbeOutcome

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'


async def run(daemon: RunningDaemon, probe: str, model: str = "echo:1") -> ProbeOutcome:
    target = ConnectTarget(url=daemon.base_url, model=model, context=512)
    return await asyncio.to_thread(ConnectionProber(target).run, probe)


ANSWERS: list[tuple[str, str]] = [
    ("models", "'echo:1' is listed"),
    ("chat", "streams 'Hello from the scripte"),
    ("completion", "streams 'Hello from the scripte"),
    ("responses", "streams 'Hello from the scripte"),
    ("messages", "streams 'Hello from the scripte"),
    ("count_tokens", " tokens"),
    ("infill", "fills in 'Hello from the scripte"),
    ("ollama_models", "'echo:1' is listed, capabilities: completion"),
    ("ollama_chat", "streams 'Hello from the scripte"),
]


@pytest.mark.parametrize(("probe", "expected"), ANSWERS)
async def test_probe_succeeds(daemon: RunningDaemon, probe: str, expected: str) -> None:
    outcome = await run(daemon, probe)
    assert outcome.worked, outcome
    assert expected in outcome.detail
    assert outcome.detail.endswith(" s)")


@pytest.mark.parametrize(
    "probe", ["chat_tools", "responses_tools", "messages_tools", "ollama_tools"]
)
async def test_tool_call_probe_succeeds(run_daemon: DaemonFactory, probe: str) -> None:
    async with run_daemon(script={"reply": CALL}) as daemon:
        # The scripted model counts bytes as tokens, and a tool description is long.
        body = {"model": "echo:1", "context": 4096}
        assert (await daemon.tcp.post("/ingle/v1/load", json=body)).status_code == 200
        outcome = await run(daemon, probe)
    assert outcome.worked, outcome
    assert "calls get_weather(" in outcome.detail
    assert "Paris" in outcome.detail


@pytest.mark.parametrize("probe", ["chat", "responses", "messages", "ollama_chat"])
async def test_probe_reports_an_error_response(daemon: RunningDaemon, probe: str) -> None:
    outcome = await run(daemon, probe, model="gone:1")
    assert not outcome.worked
    assert outcome.detail.startswith("404: ")
    assert "gone:1" in outcome.detail


async def test_probe_reports_an_error_in_a_stream(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script={"reply": "no call"}) as daemon:
        body = {"model": "echo:1", "context": 4096}
        await daemon.tcp.post("/ingle/v1/load", json=body)
        for probe in ("chat_tools", "responses_tools", "messages_tools"):
            outcome = await run(daemon, probe)
            assert not outcome.worked
            assert "cannot follow the grammar" in outcome.detail


async def test_probe_reports_a_missing_model(daemon: RunningDaemon) -> None:
    outcome = await run(daemon, "models", model="gone:1")
    assert (outcome.worked, outcome.detail) == (False, "'gone:1' is not among: echo:1")


async def test_probe_reports_a_failed_connection() -> None:
    target = ConnectTarget(url="http://127.0.0.1:1", model="x", context=1)
    outcome = await asyncio.to_thread(ConnectionProber(target).run, "chat")
    assert not outcome.worked
    assert "the connection failed" in outcome.detail


async def test_probe_sends_the_api_key(daemon: RunningDaemon) -> None:
    store = KeyStore(daemon.services.config.paths.keys)
    _, key = store.create()
    target = ConnectTarget(url=daemon.base_url, model="echo:1", context=512, key=key)
    assert (await asyncio.to_thread(ConnectionProber(target).run, "models")).worked
    store.revoke("key-1")
    outcome = await asyncio.to_thread(ConnectionProber(target).run, "models")
    assert outcome.detail.startswith("401: ")
