"""`run_acp`: serves a client on stdin and stdout until it leaves."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from ..terminal.exit_signals import ending_signals

if TYPE_CHECKING:
    from acp.interfaces import Agent

    from ..settings.chat_folders import ChatFolders
    from .chat_agent import ChatAgent


def run_acp(
    *,
    socket_path: str,
    folders: ChatFolders,
    model: str | None,
    start_daemon: Callable[[], None],
    version: str,
) -> int:
    """Serve until stdin ends; messages for the user are on stderr."""
    from ..history.history_store import open_history
    from ..plain.passphrase_prompt import unlock
    from .chat_agent import ChatAgent

    def warn(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    store = open_history(folders.chats, warn)
    try:
        unlock(store)
        agent = ChatAgent(socket_path, folders, store, model, start_daemon, version)
        asyncio.run(_serve(agent))
    finally:
        kept = store.close()
    if not kept:
        warn("The end of the last chat could not be written.")
    return 0 if kept else 1


async def _serve(agent: ChatAgent) -> None:
    from acp import run_agent

    serving = asyncio.ensure_future(run_agent(cast("Agent", agent), use_unstable_protocol=True))
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # Windows
        for number in (*ending_signals(), signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await serving
    finally:
        await agent.close()
