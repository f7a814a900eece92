"""A worker's loop in a thread of this process, for the scripted engine."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from typing import Literal

from ingle.backends.base.backend import LoadProgress
from ingle.backends.base.errors import BackendError, WorkerDied
from ingle.backends.base.events import Embedded, EventSink, Reranked, Tokenized
from ingle.backends.base.kv_page_map import PagesSink
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.model_info import Gauges, ModelInfo
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)
from ingle.backends.worker.inbox import Inbox
from ingle.backends.worker.model_loader import load_model
from ingle.backends.worker.supervisor.request_streams import RequestStreams
from ingle.backends.worker.worker_protocol import (
    Cancel,
    Drain,
    DropAdapter,
    FromWorker,
    GaugesReport,
    Loading,
    Outputs,
    PagesReport,
    Rejected,
    Trim,
    WatchPages,
)


class LocalBackend:
    """A `Backend` without a process: what a worker does, without the pipes.

    A crash of its model would be a crash of this process, so use it only for engines without native
    code.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self.state: Literal["new", "starting", "ready", "stopping", "dead"] = "new"
        self.gauges = Gauges()
        self._inbox: Inbox = queue.SimpleQueue()
        self._pages_sink: PagesSink | None = None
        self._streams = RequestStreams(self._inbox.put)
        self._thread: threading.Thread | None = None
        self._progress: LoadProgress | None = None
        self._dead = asyncio.Event()
        self._cause = ""

    @property
    def pid(self) -> int | None:
        """None: it has no process of its own."""
        return None

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        """See `Backend.start`."""
        self.state = "starting"
        self._progress = on_progress
        loop = asyncio.get_running_loop()
        loading: asyncio.Future[ModelInfo] = loop.create_future()
        self._thread = threading.Thread(target=self._run, args=(loop, loading), daemon=True)
        self._thread.start()
        try:
            info = await loading
        except BackendError:
            await self._dead.wait()  # the thread still needs the loop to report its end
            raise
        self.state = "ready"
        return info

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`."""
        self._check_ready()
        await self._streams.run(request, sink)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """See `RequestBackend.embed`."""
        self._check_ready()
        return await self._streams.ask(request, Embedded)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """See `RequestBackend.rerank`."""
        self._check_ready()
        return await self._streams.ask(request, Reranked)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """See `RequestBackend.tokenize`."""
        self._check_ready()
        return await self._streams.ask(request, Tokenized)

    async def wait_dead(self) -> WorkerDied:
        """See `Backend.wait_dead`."""
        await self._dead.wait()
        return WorkerDied(self._cause)

    def trim(self) -> None:
        """See `Backend.trim`."""
        self._inbox.put(Trim())

    def drop_adapter(self, folder: str) -> None:
        """See `Backend.drop_adapter`."""
        self._inbox.put(DropAdapter(folder))

    def watch_pages(self, sink: PagesSink | None) -> None:
        """See `Backend.watch_pages`."""
        self._pages_sink = sink
        self._inbox.put(WatchPages(sink is not None))

    async def stop(self, grace: float = 5.0) -> None:
        """See `Backend.stop`."""
        if self._thread is None or self.state == "dead":
            self._die("The model was stopped before it started.")
            return
        self.state = "stopping"
        self._inbox.put(Drain(grace))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._dead.wait(), grace)
        for request_id in list(self._streams._streams):  # pyright: ignore[reportPrivateUsage]
            self._inbox.put(Cancel(request_id))
        await self._dead.wait()

    def _check_ready(self) -> None:
        if self.state != "ready":
            raise WorkerDied(self._cause or "The model is not running.", hint="Try again.")

    def _run(self, loop: asyncio.AbstractEventLoop, loading: asyncio.Future[ModelInfo]) -> None:
        """Run the model's thread."""

        def send(message: FromWorker) -> None:
            loop.call_soon_threadsafe(self._receive, message)

        cause = "The model was unloaded."
        try:
            with load_model(self.spec, send, self._inbox) as (worker, info):
                loop.call_soon_threadsafe(_resolve, loading, info)
                worker.run()
        except BackendError as error:
            loop.call_soon_threadsafe(_resolve, loading, error)
            cause = error.message
        except Exception as error:
            cause = f"The model's thread failed: {error!r}"
            loop.call_soon_threadsafe(_resolve, loading, WorkerDied(cause))
        loop.call_soon_threadsafe(self._die, cause)

    def _receive(self, message: FromWorker) -> None:
        match message:
            case Embedded() | Reranked() | Tokenized() | Outputs() | Rejected():
                self._streams.dispatch(message)
            case GaugesReport(gauges):
                self.gauges = gauges
            case PagesReport(pages) if self._pages_sink is not None:
                self._pages_sink(pages)
            case Loading(fraction) if self._progress is not None:
                self._progress(fraction)
            case _:
                pass

    def _die(self, cause: str) -> None:
        self.state = "dead"
        self._cause = self._cause or cause
        self._streams.fail_all(WorkerDied(self._cause))
        self._dead.set()


def _resolve(loading: asyncio.Future[ModelInfo], outcome: ModelInfo | BackendError) -> None:
    if loading.done():
        return
    if isinstance(outcome, BackendError):
        loading.set_exception(outcome)
    else:
        loading.set_result(outcome)
