"""API keys without access to remote models keep requests local, in every protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ingle.daemon.access.api_keys import KeyLimitation, KeyStore
from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.routing.conftest import Sink, SinkExits

MESSAGES = [{"role": "user", "content": "Why is the sky blue?"}]
CHATS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/responses": {"input": "Why is the sky blue?"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 100},
    "/api/chat": {"messages": MESSAGES, "stream": False},
    "/api/v0/chat/completions": {"messages": MESSAGES},
}


@pytest.fixture
async def daemon(run_daemon: DaemonFactory, egress: SinkExits) -> AsyncGenerator[RunningDaemon]:
    """A daemon with a local model and a provider."""
    async with run_daemon(egress=egress) as running:
        yield running


def key_for(daemon: RunningDaemon, **limits: Any) -> dict[str, str]:
    limitation = KeyLimitation(**limits)
    _, key = KeyStore(daemon.services.config.paths.keys).create(limitation=limitation)
    return {"authorization": f"Bearer {key}"}


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"route": "local"}, {"models": ("echo*",)}], ids=str)
async def test_restricted_key_stays_local_and_remote_models_are_refused(
    daemon: RunningDaemon, sink: Sink, limits: dict[str, Any]
) -> None:
    key = key_for(daemon, **limits)
    for path, body in CHATS.items():
        answer = await daemon.tcp.post(path, json={**body, "model": "auto"}, headers=key)
        assert answer.status_code == 200, answer.text
        assert answer.headers["ingle-route"] == "local; model=echo:1; rule=key"
        answer = await daemon.tcp.post(path, json={**body, "model": "sink/big"}, headers=key)
        assert answer.status_code == 403, answer.text
    assert sink.connections == 0


async def test_key_for_a_remote_model_reaches_only_that_model(
    daemon: RunningDaemon, sink: Sink
) -> None:
    key = key_for(daemon, models=("sink/*",))
    body = {"messages": MESSAGES, "model": "sink/big"}
    answer = await daemon.tcp.post("/v1/chat/completions", json=body, headers=key)
    assert answer.status_code == 200, answer.text
    assert sink.connections == 1
    answer = await daemon.tcp.post(
        "/v1/chat/completions", json={**body, "model": "echo:1"}, headers=key
    )
    assert answer.status_code == 403
