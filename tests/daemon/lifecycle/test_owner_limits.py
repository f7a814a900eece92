"""Server-wide caps and defaults: max_tokens, context and keep-alive."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.daemon.load_planning.load_options import LoadOptions
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

ENDLESS = {"reply": "x" * 400}


@pytest.mark.parametrize(
    ("cap", "default", "requested", "effective"),
    [
        (0, 0, None, None),
        (0, 0, 7, 7),
        (10, 0, None, 10),
        (10, 0, 7, 7),
        (10, 0, 70, 10),
        (0, 5, None, 5),
        (0, 5, 70, 70),
        (10, 50, None, 10),
        (10, 5, 0, 0),
    ],
)
def test_answer_limit_applies_cap_and_default(
    cap: int, default: int, requested: int | None, effective: int | None
) -> None:
    spec = LoadSpec(engine="", path="", context=1, max_tokens=cap, default_max_tokens=default)
    assert spec.answer_limit(requested) == effective


@pytest.mark.parametrize(
    ("cap", "requested", "effective"),
    [(-1, -1, -1), (-1, 60, 60), (30, -1, 30), (30, 60, 30), (30, 5, 5), (0, 60, 0)],
)
def test_keep_alive_is_capped(cap: float, requested: float, effective: float) -> None:
    config = Config(paths=find_paths({"INGLE_HOME": os.devnull}), max_keep_alive=cap)
    assert config.bounded_keep_alive(requested) == effective


async def completion(daemon: RunningDaemon, **fields: Any) -> int:
    body = {"model": "echo:1", "prompt": "Hi", **fields}
    answer = (await daemon.tcp.post("/v1/completions", json=body)).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    tokens: int = answer["usage"]["completion_tokens"]
    return tokens


async def test_answers_are_limited_by_max_tokens(run_daemon: DaemonFactory) -> None:
    async with run_daemon(script=ENDLESS, max_tokens=12, default_max_tokens=5) as daemon:
        assert await completion(daemon) == 5
        assert await completion(daemon, max_tokens=8) == 8
        assert await completion(daemon, max_tokens=300) == 12
        async with daemon.tcp.stream(
            "POST", "/v1/completions", json={"model": "echo:1", "prompt": "Hi", "stream": True}
        ) as answer:
            text = (await answer.aread()).decode()
        assert '"finish_reason":"length"' in text


async def test_load_is_limited_by_max_context_and_max_keep_alive(run_daemon: DaemonFactory) -> None:
    async with run_daemon(max_context=300, max_keep_alive=60.0) as daemon:
        body = {"model": "echo:1", "context": 4096, "keep_alive": -1}
        loaded = (await daemon.tcp.post("/ingle/v1/load", json=body)).json()
        assert loaded["context"] == 300
        assert 0 < loaded["expires_in"] <= 60
        # A requested context above the cap is clamped to it, so the model is not reloaded.
        again = (await daemon.tcp.post("/ingle/v1/load", json={**body, "context": 8192})).json()
        assert again["pid"] == loaded["pid"]
        assert again["loaded_for"] >= loaded["loaded_for"]


async def test_lease_is_limited_like_a_load(run_daemon: DaemonFactory) -> None:
    async with run_daemon(max_context=1000, max_keep_alive=60.0) as daemon:
        options = LoadOptions(context=4096)
        manager = daemon.services.manager
        for _ in range(2):
            async with manager.lease("echo:1", options=options, keep_alive=-1.0) as lease:
                assert lease.info.context == 1000
        (loaded,) = manager.loaded()
        assert loaded.expires_in is not None
        assert loaded.expires_in <= 60
