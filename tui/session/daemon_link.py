"""`DaemonLink`: keeps the chat connected to the daemon, and starts it if it does not run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from urllib.parse import quote

from textual.message import Message

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError, DaemonUnreachable
from ingle.daemon.client.daemon_types import GaugesEvent, PagesEvent
from ingle.daemon.client.engine_types import InstallProgress
from ingle.daemon.client.model_types import DownloadProgress, LoadedModel
from ingle.daemon.client.sse_parser import ServerSentEvent

from .chat_events import DaemonConnected, DaemonLost, DaemonReported, Report
from .start_thread import in_thread

REPORTS: dict[str, type[Report]] = {
    "model": LoadedModel,
    "gauges": GaugesEvent,
    "pages": PagesEvent,
    "pull": DownloadProgress,
    "engine": InstallProgress,
}
RETRY_SECONDS = 5.0
"""Interval in seconds at which a lost daemon is polled."""


class DaemonLink:
    """One task that follows the daemon's shared event stream and reports by messages."""

    def __init__(
        self,
        client: AsyncDaemonClient,
        post: Callable[[Message], object],
        start_daemon: Callable[[], None] | None,
    ) -> None:
        self._client = client
        self._post = post
        self._start_daemon = start_daemon
        self._wake = asyncio.Event()
        self._may_start = True
        self.connected = False
        self._pages_of: str | None = None
        self._pages_moved = asyncio.Event()

    def wake(self) -> None:
        """Try again at once, and start the daemon if it does not run: the user asked for it."""
        self._may_start = True
        self._wake.set()

    def watch_pages(self, model: str | None) -> None:
        """Subscribe to the page map of a model, or with None to none.

        The event stream restarts with it, and repeats its first events.
        """
        if model != self._pages_of:
            self._pages_of = model
            self._pages_moved.set()

    async def run(self) -> None:
        """Connect, follow, connect again; ends only by cancellation."""
        while True:
            try:
                await self._connect()
                await self._follow()
                lost: ClientError = DaemonUnreachable("The daemon closed the connection.")
            except ClientError as error:
                lost = error
            if self.connected:
                self.connected = False
                # A daemon that another program restarted is back at once.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), 0.3)
                if await self._answers():
                    continue
            self._post(DaemonLost(lost.message, lost.hint))
            await self._pause()

    async def _pause(self) -> None:
        """Wait for `wake`, or until the daemon answers again."""
        self._wake.clear()
        while not self._wake.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), RETRY_SECONDS)
            if await self._answers():
                return

    async def _answers(self) -> bool:
        try:
            await self._client.request_json("GET", "/health")
        except ClientError:
            return False
        return True

    async def _connect(self) -> None:
        """Report the models; starts the daemon if it does not answer. Raises `ClientError`."""
        try:
            models = (await self._client.models()).models
        except DaemonUnreachable:
            if self._start_daemon is None or not self._may_start:
                raise
            self._may_start = False
            await in_thread(self._start_daemon)
            models = (await self._client.models()).models
        self.connected = True
        self._post(DaemonConnected(models))

    async def _follow(self) -> None:
        """Follow the stream to its end, in another form whenever `watch_pages` asks for one."""
        while True:
            self._pages_moved.clear()
            reading = asyncio.ensure_future(self._read(self._pages_of))
            asked = asyncio.ensure_future(self._pages_moved.wait())
            try:
                await asyncio.wait({reading, asked}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
                if not reading.done():
                    reading.cancel()
            if not self._pages_moved.is_set():
                return await reading
            # Awaited by `gather`: its cancellation must not be mistaken for that of this task. If
            # it failed, so will the next one.
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, pages_of: str | None) -> None:
        query = "" if pages_of is None else f"?pages={quote(pages_of, safe='')}"
        async with aclosing(self._client.events(f"/ingle/v1/events{query}")) as events:
            async for event in events:
                self._report(event)

    def _report(self, event: ServerSentEvent) -> None:
        kind = REPORTS.get(event.event)
        if kind is not None:
            self._post(DaemonReported(self._client.decode_event(event, kind)))

    async def warm_up(self, model: str) -> None:
        """Have a model loaded before it is asked."""
        # A failure is reported by the first prompt.
        with suppress(ClientError):
            await self._client.request_json("POST", "/ingle/v1/load", {"model": model})
