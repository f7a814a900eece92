"""The interface of a backend: a model that answers requests, and can be started and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Literal, Protocol

from .errors import WorkerDied
from .events import Embedded, Event, EventSink, Reranked, Tokenized
from .kv_page_map import PagesSink
from .model_info import Gauges, ModelInfo
from .requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest

LoadProgress = Callable[[float], None]
"""Called on the event loop with the fraction loaded, 0 to 1."""


class RequestBackend(Protocol):
    """A model that answers requests."""

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """Pass each step's events to `sink` until all `n` sequences of the request have finished.

        Raises `RequestRejected` before the first event, `WorkerDied` at any time, and any error of
        the sink, which ends the request. Cancelling the call cancels the request.
        """

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Embed texts; raises as `run` does. Cancelling the call cancels the request."""
        ...

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Score documents for a query; raises as `run` does."""
        ...

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Turn a prompt or a text into tokens, or tokens into text; raises as `run` does."""
        ...


async def stream_events(
    backend: RequestBackend, request: GenerateRequest
) -> AsyncGenerator[Event, None]:
    """Yield the events of `backend.run`, then raise its error; closing cancels the request."""
    queue: asyncio.Queue[list[Event] | None] = asyncio.Queue()
    task = asyncio.create_task(backend.run(request, queue.put_nowait))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (events := await queue.get()) is not None:
            for event in events:
                yield event
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Backend(RequestBackend, Protocol):
    """A model that can be started and stopped; one owner calls `start` and `stop`."""

    @property
    def state(self) -> Literal["new", "starting", "ready", "stopping", "dead"]:
        """`dead` is final."""
        ...

    @property
    def pid(self) -> int | None:
        """The id of the model's process; None if it has none."""
        ...

    @property
    def gauges(self) -> Gauges:
        """The gauges that the model reported last."""
        ...

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        """Load the model; raises `LoadFailed` or `WorkerDied`."""
        ...

    async def wait_dead(self) -> WorkerDied:
        """Wait until the backend is dead; return the reason."""
        ...

    def trim(self) -> None:
        """Free caches that only save later computation."""

    def drop_adapter(self, folder: str) -> None:
        """Free the adapter that the model loaded from a folder, once it computes nothing."""

    def watch_pages(self, sink: PagesSink | None) -> None:
        """Pass the page map to `sink` now and after changes, at most four times a second.

        A new sink replaces the previous one; None ends the reports. Embedding models have no pages.
        """

    async def stop(self, grace: float = 5.0) -> None:
        """Stop the model; sequences still running after `grace` seconds end with `WorkerDied`.

        If KV has to be saved, they have only a part of that time.
        """
