"""Forced calls of a real model: a named tool is called once, without arguments if it has none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

ASK = [{"role": "user", "content": "Get the time in Rome, Paris and Oslo, in parallel."}]


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}])
async def test_a_named_tool_without_parameters_is_called_once_with_nothing(
    run_daemon: DaemonFactory, smollm2_path: Path, schema: dict[str, Any]
) -> None:
    common = {"model": str(smollm2_path), "messages": ASK, "max_tokens": 200}
    function = {"name": "now", "parameters": schema}
    async with run_daemon(
        prepares_files=True, create_backend=WorkerProcess, context=1024
    ) as daemon:
        for seed in range(3):
            openai = await daemon.tcp.post(
                "/v1/chat/completions",
                json={
                    **common,
                    "seed": seed,
                    "tools": [{"type": "function", "function": function}],
                    "tool_choice": {"type": "function", "function": {"name": "now"}},
                },
            )
            (call,) = openai.json()["choices"][0]["message"]["tool_calls"]
            assert (call["function"]["name"], call["function"]["arguments"]) == ("now", "{}")
            anthropic = await daemon.tcp.post(
                "/v1/messages",
                json={
                    **common,
                    "seed": seed,
                    "tools": [{"name": "now", "input_schema": schema}],
                    "tool_choice": {"type": "tool", "name": "now"},
                },
            )
            (block,) = anthropic.json()["content"]
            assert (block["type"], block["name"], block["input"]) == ("tool_use", "now", {})
