"""`GET /v1/models`: models and aliases, for OpenAI and Anthropic clients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

ALIASES = (("gpt-4o", "echo:1"), ("fast", "gpt-4o"), ("claude-*", "echo:1"), ("lost", "nobody"))


async def test_models_report_the_effective_context(daemon: RunningDaemon) -> None:
    (model,) = (await daemon.tcp.get("/v1/models")).json()["data"]
    assert (model["id"], model["object"], model["owned_by"]) == ("echo:1", "model", "ingle")
    assert (model["context_length"], model["max_model_len"], model["state"]) == (
        512,
        512,
        "stopped",
    )
    assert model["capabilities"] == ["completion"]
    shown = (await daemon.tcp.post("/api/show", json={"model": "echo:1"})).json()
    assert shown["capabilities"] == model["capabilities"]
    meta = {"n_ctx": 512, "n_ctx_train": 4096, "n_params": 1, "size": 4, "ftype": "Q8_0"}
    assert model["meta"] == meta
    await daemon.unix.post("/ingle/v1/load", json={"model": "echo:1", "context": 256})
    loaded = (await daemon.tcp.get("/v1/models/echo:1")).json()
    assert (loaded["context_length"], loaded["state"]) == (256, "ready")
    assert loaded["meta"]["n_vocab"] > 256
    assert (await daemon.tcp.get("/v1/models/none")).status_code == 404
    assert (await daemon.tcp.get("/v1/models/")).json()["data"][0]["id"] == "echo:1"


async def test_aliases_are_listed(run_daemon: DaemonFactory) -> None:
    async with run_daemon(aliases=ALIASES) as daemon:
        models = (await daemon.tcp.get("/v1/models")).json()["data"]
        assert [(model["id"], model.get("root")) for model in models] == [
            ("echo:1", None),
            ("gpt-4o", "echo:1"),
            ("fast", "echo:1"),
        ]
        for name in ("gpt-4o", "claude-x"):
            model = (await daemon.tcp.get(f"/v1/models/{name}")).json()
            assert (model["id"], model["root"]) == (name, "echo:1")
        assert (await daemon.tcp.get("/v1/models/lost")).status_code == 404


async def test_sdks_list_models(run_daemon: DaemonFactory) -> None:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    async with (
        run_daemon(aliases=ALIASES) as daemon,
        AsyncOpenAI(base_url=f"{daemon.base_url}/v1", api_key="none") as openai,
        AsyncAnthropic(base_url=daemon.base_url, api_key="none") as anthropic,
    ):
        names = [model.id async for model in openai.models.list()]
        assert [model.id async for model in anthropic.models.list()] == names
        assert (await openai.models.retrieve("gpt-4o")).id == "gpt-4o"
        retrieved = await anthropic.models.retrieve("claude-x")
        assert (retrieved.id, retrieved.type, retrieved.max_input_tokens) == (
            "claude-x",
            "model",
            512,
        )
        with pytest.raises(Exception, match="none"):
            await anthropic.models.retrieve("none")
