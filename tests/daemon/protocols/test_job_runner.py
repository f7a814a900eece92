"""The job runner that all protocols share: streams during loads, and errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

from ingle.daemon.load_planning.load_options import LoadOptions

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

HI = [{"role": "user", "content": "Hi"}]
CHAT: tuple[str, dict[str, Any]] = ("/v1/chat/completions", {"messages": HI})
MESSAGES: tuple[str, dict[str, Any]] = ("/v1/messages", {"messages": HI, "max_tokens": 9})
RESPONSES: tuple[str, dict[str, Any]] = ("/v1/responses", {"input": "Hi"})


async def lines_of(daemon: RunningDaemon, path: str, body: dict[str, Any]) -> list[str]:
    """All lines of a stream."""
    call = {"model": "echo:1", "stream": True, **body}
    async with daemon.tcp.stream("POST", path, json=call, timeout=20) as answer:
        assert answer.status_code == 200, await answer.aread()
        return [line async for line in answer.aiter_lines() if line]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "notice"),
    [
        (CHAT, ": loading the model, "),
        (MESSAGES, "event: ping"),
        (RESPONSES, "event: response.created"),
    ],
)
async def test_stream_starts_while_the_model_loads(
    run_daemon: DaemonFactory, call: tuple[str, dict[str, Any]], notice: str
) -> None:
    async with run_daemon(script={"load_seconds": 1.0}) as daemon:
        first, *rest = await lines_of(daemon, *call)
        assert first.startswith(notice)
        assert len(rest) > len("Hello")  # the scripted model has one token per letter
        # The model is loaded, so that no notice is sent.
        assert len(await lines_of(daemon, *call)) <= len(rest) + 1


@pytest.mark.parametrize("call", [CHAT, MESSAGES, RESPONSES])
async def test_immediate_load_error_is_an_http_status(
    run_daemon: DaemonFactory, call: tuple[str, dict[str, Any]]
) -> None:
    async with run_daemon(script={"load_error": "It is broken."}) as daemon:
        path, body = call
        answer = await daemon.tcp.post(path, json={"model": "echo:1", "stream": True, **body})
        assert answer.status_code == 500
        assert answer.json()["error"]["message"].startswith("It is broken.")


@pytest.mark.slow
@pytest.mark.parametrize("call", [CHAT, MESSAGES, RESPONSES])
async def test_late_load_error_is_reported_in_the_stream(
    run_daemon: DaemonFactory, call: tuple[str, dict[str, Any]]
) -> None:
    script = {"load_seconds": 1.0, "load_error": "It is broken."}
    async with run_daemon(script=script) as daemon:
        lines = await lines_of(daemon, *call)
        assert "It is broken." in lines[-1]
        assert lines[-1].startswith("data: ")
        assert "[DONE]" not in lines[-1]


async def test_lease_grows_the_context_on_request(daemon: RunningDaemon) -> None:
    manager = daemon.services.manager
    async with manager.lease("echo:1") as lease:
        first = lease.info.context
    async with manager.lease("echo:1", options=LoadOptions(context=first * 2)) as lease:
        assert lease.info.context == first * 2
        larger = lease.info
    async with manager.lease("echo:1", options=LoadOptions(context=first)) as lease:
        assert lease.info is larger  # a sufficient context is kept
    async with manager.lease("echo:1", keep_alive=0.0):
        pass
    await daemon.until(lambda: not manager.loaded())
