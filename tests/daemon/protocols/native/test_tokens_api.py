"""`POST /ingle/v1/tokens` over real sockets, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.worker.supervisor.worker_process import WorkerProcess

if TYPE_CHECKING:
    from ...conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

TOKENS = "/ingle/v1/tokens"
TALK = [
    {"role": "system", "content": "Be terse."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
]


async def count(daemon: RunningDaemon, **fields: Any) -> Any:
    answer = await daemon.unix.post(TOKENS, json={"messages": TALK} | fields)
    assert answer.status_code == 200, answer.text
    counts = answer.json()
    assert sum(counts["messages"]) + counts["rest"] == counts["total"]
    return counts


async def refused(daemon: RunningDaemon, **fields: Any) -> tuple[int, str]:
    answer = await daemon.unix.post(TOKENS, json={"messages": TALK} | fields)
    return answer.status_code, answer.json()["error"]["code"]


async def prompt_tokens(daemon: RunningDaemon, **fields: Any) -> int:
    """The prompt tokens that a generation reports for the same messages."""
    body = {"messages": TALK, "max_tokens": 1} | fields
    started = (await daemon.unix.post("/ingle/v1/generations", json=body)).json()
    path = f"/ingle/v1/generations/{started['id']}/events"
    return next(
        data["prompt_tokens"]
        for name, data in await daemon.events("GET", path)
        if name == "started"
    )


async def test_counts_equal_those_of_a_generation(daemon: RunningDaemon) -> None:
    total = await prompt_tokens(daemon)
    counts = await count(daemon, model="echo")
    assert (counts["total"], len(counts["messages"])) == (total, 4)
    assert counts["context"] == 512
    # The scripted tokenizer has one token per byte, so that "Hi" is one token shorter than "Bye".
    assert counts["messages"][3] == counts["messages"][1] + 1


async def test_counting_loads_the_model_only_on_request(daemon: RunningDaemon) -> None:
    assert await refused(daemon) == (409, "model_not_loaded")
    assert daemon.services.manager.loaded() == []
    assert (await count(daemon, load=True))["total"] > 0
    assert (await count(daemon))["total"] > 0


async def test_invalid_count_requests_are_refused(daemon: RunningDaemon) -> None:
    assert await refused(daemon, model="nope") == (404, "model_not_found")
    assert await refused(daemon, messages=None) == (400, "invalid_request")
    assert await refused(daemon, messages=[]) == (400, "invalid_request")
    invalid = [{"role": "nobody", "content": "?"}]
    assert await refused(daemon, messages=invalid) == (400, "invalid_request")


async def test_messages_beyond_the_context_are_counted(daemon: RunningDaemon) -> None:
    long = [{"role": "user", "content": "word " * 400}]
    counts = await count(daemon, messages=long, load=True)
    assert counts["total"] > counts["context"]


@pytest.mark.slow
@pytest.mark.model
async def test_count_equals_prompt_tokens_with_a_real_model(
    run_daemon: DaemonFactory, smollm2_path: Path
) -> None:
    where = str(smollm2_path)
    async with run_daemon(create_backend=WorkerProcess, prepares_files=True) as daemon:
        total = await prompt_tokens(daemon, model=where)
        assert (await count(daemon, model=where))["total"] == total
