"""Prefill of the new context in advance, after a compaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.context_view import request_messages
from ingle.tui.compaction.context_prefill import warm_up

if TYPE_CHECKING:
    from ..conftest import FakeDaemon

ERROR = {"code": "invalid_request", "message": "max_tokens is too small.", "hint": None}


def requested_max_tokens(fake_daemon: FakeDaemon) -> list[int]:
    """The `max_tokens` of the generation requests."""
    bodies = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
    return [body["max_tokens"] for body in bodies]


async def test_warm_up_prefills_without_generating(
    fake_daemon: FakeDaemon, client: AsyncDaemonClient, make_chat: Callable[..., Chat]
) -> None:
    chat = make_chat("one?", "two?")
    await warm_up(client, chat, None)
    assert requested_max_tokens(fake_daemon) == [0]
    assert fake_daemon.prompts == [request_messages(chat)]


@pytest.mark.parametrize("status", [400, 503])
async def test_warm_up_ignores_errors_of_the_daemon(
    fake_daemon: FakeDaemon,
    client: AsyncDaemonClient,
    make_chat: Callable[..., Chat],
    status: int,
) -> None:
    fake_daemon.script(refuse=(status, ERROR))
    await warm_up(client, make_chat("one?", "two?"), None)
    assert requested_max_tokens(fake_daemon) == [0]
