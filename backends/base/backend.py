"""The protocols of a backend: a model that answers requests, and can be started and stopped."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Literal, Protocol

from .events import Embedded, Event, EventSink, Reranked, Tokenized
from .kv_page_map import PagesSink
from .model_info import Gauges, ModelInfo
from .requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest

LoadProgress = Callable[[float], None]
"""Called on the event loop with the fraction loaded, 0 to 1."""


class RequestBackend(Protocol):
    """A model that answers requests."""

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Yield the request's events until all of its `n` sequences finished.

        Raises `RequestRejected` before the first event, `WorkerDied` at any time. Closing the
        generator cancels what still runs.
        """
        ...

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """Pass each step's events straight to `sink` until all sequences finished.

        Raises as `generate` does, and what the sink raises, which ends the request. Cancelling the
        call cancels what still runs.
        """

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Turn texts into vectors; raises as `generate` does. A cancelled call ends the work."""
        ...

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Score documents for a query; raises as `generate` does."""
        ...

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Turn a prompt or a text into tokens, or tokens into text; raises as `generate` does."""
        ...


class Backend(RequestBackend, Protocol):
    """A model that can be started and stopped; one owner calls `start` and `stop`."""

    @property
    def state(self) -> Literal["new", "starting", "ready", "stopping", "dead"]:
        """`dead` is final: make another backend."""
        ...

    @property
    def pid(self) -> int | None:
        """The process that holds the model, where there is one."""
        ...

    @property
    def gauges(self) -> Gauges:
        """The latest gauges the model reported."""
        ...

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        """Load the model; raises `LoadFailed` or `WorkerDied`."""
        ...

    async def wait_dead(self) -> str:
        """Return once the backend is dead, with a sentence that says why."""
        ...

    def trim(self) -> None:
        """Ask for the memory back that only serves to compute less later."""

    def watch_pages(self, sink: PagesSink | None) -> None:
        """Have `sink` get the page map now, and when it moves, at most four times a second.

        None ends that; so does another sink. A model that embeds has no pages.
        """

    async def stop(self, grace: float = 5.0) -> None:
        """End the model; sequences that do not end in `grace` seconds get `WorkerDied`.

        They get less than that where what was computed has to be saved.
        """
