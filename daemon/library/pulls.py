"""Model downloads, owned by the daemon: one per model, shared by all clients that want it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable

import msgspec

from ingle.models.download.pull_progress import OnPullProgress, PullProgress
from ingle.models.metadata.stored_model import StoredModel

from ..access.permission import current_permission
from ..error_status import describe
from ..errors import ShuttingDown
from ..event_hub import EventHub

REPORT_SECONDS = 0.25


Puller = Callable[[str, OnPullProgress, Callable[[], bool]], StoredModel]
"""Fetches a model by its reference: blocks, and calls both callbacks in its thread."""


class Pull:
    """One download in its own thread; followers get the latest progress, not every report."""

    def __init__(self, name: str, reference: str, pull: Puller, hub: EventHub) -> None:
        self.name = name
        self.progress = PullProgress(model=name, status="resolving")
        self.cancelled = False
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._result: asyncio.Future[StoredModel] = self._loop.create_future()
        # If all followers have left before the end, the result is never retrieved.
        self._result.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._news = asyncio.Event()
        self._last_report = 0.0
        self._last_status = ""
        # Not in the loop's pool, which the daemon's shutdown would wait for.
        threading.Thread(
            target=self._run, args=(reference, pull), name=f"pull {name}", daemon=True
        ).start()

    @property
    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self._result.done()

    async def follow(self) -> AsyncGenerator[PullProgress, None]:
        """Yield the progress now and after each change, until the end."""
        while True:
            news = self._news
            yield self.progress
            if self.done:
                return
            await news.wait()

    async def result(self) -> StoredModel:
        """Return the model; raises the error of the download."""
        return await asyncio.shield(self._result)

    def _run(self, reference: str, pull: Puller) -> None:
        try:
            model = pull(reference, self._report, lambda: self.cancelled)
        except Exception as error:
            self._call(self._fail, error)
        else:
            self._call(self._finish, model)

    def _report(self, progress: PullProgress) -> None:
        """Pass on a few reports per second, and every new phase; runs in the download's thread."""
        now = time.monotonic()
        moved = progress.status != self._last_status or progress.received == progress.total
        if moved or now - self._last_report >= REPORT_SECONDS:
            self._last_report, self._last_status = now, progress.status
            self._call(self._advance, progress)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: the daemon has ended
            self.cancelled = True

    def _advance(self, progress: PullProgress) -> None:
        # The store learns the full name during the download; listeners need a constant one.
        progress = msgspec.structs.replace(progress, model=self.name)
        self._show(progress)
        self._hub.publish("pull", progress, replaces=self.name)

    def _finish(self, model: StoredModel) -> None:
        self._result.set_result(model)
        self._end("done")

    def _fail(self, error: Exception) -> None:
        self._result.set_exception(error)
        self._end("failed")

    def _end(self, status: str) -> None:
        self._show(
            msgspec.structs.replace(self.progress, status=status, bytes_per_second=0.0, eta=None)
        )
        self._hub.publish("pull", self.progress)

    def _show(self, progress: PullProgress) -> None:
        self.progress = progress
        self._news.set()
        self._news = asyncio.Event()


class PullManager:
    """The running downloads; `canonical` maps all names of a model to one."""

    def __init__(self, pull: Puller, canonical: Callable[[str], str], hub: EventHub) -> None:
        self._pull = pull
        self._canonical = canonical
        self._hub = hub
        self._pulls: dict[str, Pull] = {}
        self._closing = False

    def join(self, reference: str) -> Pull:
        """Return the running download of this model, or start one."""
        if self._closing:
            raise ShuttingDown("The daemon is shutting down.", hint="Start it again.")
        name = self._canonical(reference)
        current_permission().check_model(name)
        pull = self._pulls.get(name)
        # A cancelled download ends with an error; a new request needs a new download.
        if pull is None or pull.done or pull.cancelled:
            self._pulls = {name: pull for name, pull in self._pulls.items() if not pull.done}
            pull = self._pulls[name] = Pull(name, reference, self._pull, self._hub)
        return pull

    async def cancel(self, reference: str) -> bool:
        """Cancel a download and wait for its end; False if there is none."""
        name = self._canonical(reference)
        current_permission().check_model(name)
        pull = self._pulls.get(name)
        if pull is None or pull.done:
            return False
        pull.cancelled = True
        try:
            await pull.result()
        except Exception as error:
            return describe(error).code == "pull_cancelled"
        return False

    def running(self) -> set[str]:
        """Return the names of the models that are being downloaded."""
        # A copy, with nothing removed: the list of models is read from a thread.
        return {name for name, pull in list(self._pulls.items()) if not pull.done}

    def progress(self) -> list[PullProgress]:
        """Return the progress of each running download."""
        return [pull.progress for pull in list(self._pulls.values()) if not pull.done]

    async def close(self, patience: float = 2.0) -> None:
        """Stop all downloads; partial files are kept for the next attempt."""
        self._closing = True
        running = [pull for pull in self._pulls.values() if not pull.done]
        for pull in running:
            pull.cancelled = True
        if running:
            waiting = [asyncio.ensure_future(pull.result()) for pull in running]
            await asyncio.wait(waiting, timeout=patience)
            for future in waiting:
                future.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
