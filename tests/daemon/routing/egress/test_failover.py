"""Failover: the next provider that may, then this machine, then an error that names all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from ingle.daemon.access.api_keys import KeyLimitation, KeyStore
from ingle.daemon.protocols import job_runner
from ingle.daemon.routing.providers.provider_store import read_provider
from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.routing.conftest import Sink

MESSAGES = [{"role": "user", "content": "Why is the sky blue?"}]

Open = Callable[..., Any]


@pytest.fixture
async def open_sinks(run_daemon: DaemonFactory) -> AsyncGenerator[Open]:
    """Start a daemon with the providers `a`, `b`, … whose servers are the given sinks."""
    async with AsyncExitStack() as stack:

        @asynccontextmanager
        async def start(*sinks: Sink, **settings: Any) -> AsyncGenerator[RunningDaemon]:
            daemon = await stack.enter_async_context(run_daemon(**settings))
            for name, sink in zip("abc", sinks, strict=False):
                server = await asyncio.start_server(sink.serve, "127.0.0.1", 0)
                stack.callback(server.close)
                sink.port = server.sockets[0].getsockname()[1]
                add(daemon, name, sink.port)
            yield daemon

        yield start


def add(daemon: RunningDaemon, name: str, port: int, **fields: object) -> None:
    table = {"kind": "openai", "base_url": f"http://127.0.0.1:{port}/v1", "own": True}
    table |= {"models": [f"big-{name}"], "retries": 1, **fields}
    daemon.services.egress.store.add(read_provider(name, table, "a test"))


async def ask(daemon: RunningDaemon, model: str = "auto", **more: Any) -> httpx.Response:
    body = {"model": model, "messages": MESSAGES, **more}
    return await daemon.unix.post("/v1/chat/completions", json=body)


async def attempts(daemon: RunningDaemon) -> list[tuple[str, str, int | None, int | None]]:
    """Provider, outcome, HTTP status and tries of each entry of the ledger."""
    await asyncio.to_thread(daemon.services.egress.flush)
    return [
        (entry.provider, entry.outcome, entry.status, entry.attempts)
        for entry in daemon.services.egress.ledger.entries()
    ]


@pytest.mark.parametrize("status", [500, 503, 429, 401])
async def test_next_provider_answers_after_a_refusal(open_sinks: Open, status: int) -> None:
    first, second = Sink(status=status), Sink(answer="From the second.")
    async with open_sinks(first, second) as daemon:
        answer = await ask(daemon)
        assert answer.headers["ingle-route"] == "cloud; model=b/big-b; rule=nothing_found"
        assert answer.json()["model"] == "b/big-b"
        assert "From the second." in answer.text
        assert await attempts(daemon) == [
            ("a", "refused", status, 1),
            ("b", "complete", 200, 1),
        ]
        # Chosen by its name, no other model may answer.
        assert (await ask(daemon, "a/big-a")).status_code >= 400
    assert second.connections == 1


async def test_next_provider_answers_after_no_connection_and_after_silence(
    open_sinks: Open,
) -> None:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    closed = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    dead = closed.sockets[0].getsockname()[1]
    closed.close()
    last = Sink()
    async with silent, open_sinks() as daemon:
        add(daemon, "dead", dead)
        add(daemon, "mute", silent.sockets[0].getsockname()[1], first_byte_timeout=0.2)
        server = await asyncio.start_server(last.serve, "127.0.0.1", 0)
        async with server:
            add(daemon, "well", server.sockets[0].getsockname()[1])
            started = await daemon.unix.post(
                "/ingle/v1/generations", json={"model": "auto", "messages": MESSAGES}
            )
            events = await daemon.events(
                "GET", f"/ingle/v1/generations/{started.json()['id']}/events"
            )
        route = [data for name, data in events if name == "route"][-1]
        assert (route["provider"], route["model"]) == ("well", "big-well")
        assert "'dead' did not answer:" in route["reason"]
        assert "'mute' did not answer:" in route["reason"]
        assert [name for name, *_ in await attempts(daemon)] == ["dead", "mute", "well"]


async def test_this_machine_answers_after_the_last_provider(
    open_sinks: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "QUIET_LOADING", 60)  # the header is that of the final route
    first, second = Sink(status=500), Sink(status=500)
    async with open_sinks(first, second) as daemon:
        answer = await ask(daemon, stream=True)
        assert answer.headers["ingle-route"] == "local; model=echo:1; rule=fallback"
        assert "echo:1" in answer.text
    # Only the last one is tried as often as its settings say.
    assert (first.connections, second.connections) == (1, 2)


async def test_error_names_every_attempt_without_a_local_model(open_sinks: Open) -> None:
    async with open_sinks(Sink(status=500), Sink(status=401), default_model="absent:1") as daemon:
        answer = await ask(daemon)
        assert answer.status_code == 502, answer.text
        message = answer.json()["error"]["message"]
        for part in ("'a' did not answer", "'b' did not answer", "absent:1"):
            assert part in message


async def test_choice_of_the_route_or_key_excludes_other_providers(open_sinks: Open) -> None:
    first, second = Sink(status=500), Sink()
    async with open_sinks(first, second) as daemon:
        limits = KeyLimitation(models=("a/*", "auto", "echo*"))
        _, key = KeyStore(daemon.services.config.paths.keys).create(limitation=limits)
        answer = await daemon.tcp.post(
            "/v1/chat/completions",
            json={"model": "auto", "messages": MESSAGES},
            headers={"authorization": f"Bearer {key}"},
        )
        assert answer.headers["ingle-route"].startswith("local"), answer.text
        policy = daemon.services.router.policy.path
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_text('[routes.auto]\ncloud = "a/big-a"\n')
        assert (await ask(daemon)).headers["ingle-route"].endswith("rule=fallback")
    assert second.connections == 0


async def test_consent_is_for_one_model(open_sinks: Open) -> None:
    first, second = Sink(status=500), Sink()
    text = "Write to anna.huber@fabrikam.org about the car."
    async with open_sinks(first, second) as daemon:
        explained = await daemon.unix.post("/ingle/v1/routing/explain", json={"text": text})
        consent = explained.json()["consents"]["redact"]
        answer = await ask(
            daemon,
            messages=[{"role": "user", "content": text}],
            ingle={"consent": consent},
        )
        assert answer.headers["ingle-route"].endswith("rule=fallback"), answer.headers
    assert (first.connections, second.connections) == (2, 0)
