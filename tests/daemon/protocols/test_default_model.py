"""Requests that name no model are answered by the default one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

HI = [{"role": "user", "content": "Hi"}]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": HI}),
    ("/v1/completions", {"prompt": "Hi"}),
    ("/v1/responses", {"input": "Hi"}),
    ("/v1/messages", {"messages": HI, "max_tokens": 3}),
    ("/completion", {"prompt": "Hi"}),
]


@pytest.mark.parametrize(("path", "body"), CALLS)
@pytest.mark.parametrize("model", [{}, {"model": None}])
async def test_the_default_model_answers(
    run_daemon: DaemonFactory, path: str, body: dict[str, Any], model: dict[str, Any]
) -> None:
    async with run_daemon(default_model="echo:1") as daemon:
        answer = await daemon.tcp.post(path, json={**body, **model})
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == "echo:1"


async def test_tokens_are_counted_for_the_default_model(run_daemon: DaemonFactory) -> None:
    async with run_daemon(default_model="echo:1") as daemon:
        answer = await daemon.tcp.post("/v1/messages/count_tokens", json={"messages": HI})
        assert answer.json()["input_tokens"] > 0


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_a_default_model_that_does_not_exist_is_named(
    run_daemon: DaemonFactory, path: str, body: dict[str, Any]
) -> None:
    async with run_daemon(default_model="absent:1") as daemon:
        answer = await daemon.tcp.post(path, json=body)
        assert answer.status_code == 404
        assert "absent:1" in answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "Hi"}),
        ("/v1/rerank", {"query": "Hi", "documents": ["Hi"]}),
    ],
)
async def test_a_default_model_of_another_kind_is_named(
    run_daemon: DaemonFactory, path: str, body: dict[str, Any]
) -> None:
    async with run_daemon(default_model="echo:1") as daemon:
        answer = await daemon.tcp.post(path, json=body)
        assert answer.status_code == 400
        assert "echo:1" in answer.text
