"""`UpdateQueue`: what a session reports to the client, in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from acp import helpers

if TYPE_CHECKING:
    from acp.interfaces import Client


class UpdateQueue:
    """Takes updates of one session without waiting, and sends them one after the other."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._sender = asyncio.create_task(self._send())

    def put(self, update: Any) -> None:
        """Send an update after those before it."""
        self._queue.put_nowait(update)

    def say(self, text: str) -> None:
        """Send text of the agent."""
        if text:
            self.put(helpers.update_agent_message_text(text))

    async def drain(self) -> None:
        """Wait until all updates were sent."""
        await self._queue.join()

    async def close(self) -> None:
        """Send nothing more."""
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)

    async def _send(self) -> None:
        while True:
            update = await self._queue.get()
            try:
                await self._client.session_update(self._session, update)
            except ConnectionError:
                pass  # the client is gone, which ends the program
            finally:
                self._queue.task_done()
