"""Base class of backends that wrap another backend."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

from ingle.backends.base.backend import Backend, LoadProgress
from ingle.backends.base.events import Embedded, Event, EventSink, Reranked, Tokenized
from ingle.backends.base.kv_page_map import PagesSink
from ingle.backends.base.model_info import Gauges, ModelInfo
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)


class BackendWrapper:
    """A `Backend` that forwards every call to the wrapped one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def state(self) -> Literal["new", "starting", "ready", "stopping", "dead"]:
        """State of the wrapped backend."""
        return self._backend.state

    @property
    def pid(self) -> int | None:
        """Process id of the wrapped backend."""
        return self._backend.pid

    @property
    def gauges(self) -> Gauges:
        """Gauges of the wrapped backend."""
        return self._backend.gauges

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        """Load the model."""
        return await self._backend.start(on_progress)

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Yield the request's events."""
        return self._backend.generate(request)

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """Pass the request's events to `sink`."""
        await self._backend.run(request, sink)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Return the embedding vectors of texts."""
        return await self._backend.embed(request)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Score documents against a query."""
        return await self._backend.rerank(request)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Convert text to tokens, or tokens to text."""
        return await self._backend.tokenize(request)

    async def wait_dead(self) -> str:
        """Wait until the backend is dead; return the reason."""
        return await self._backend.wait_dead()

    def trim(self) -> None:
        """Ask the worker to free cached memory."""
        self._backend.trim()

    def watch_pages(self, sink: PagesSink | None) -> None:
        """Subscribe `sink` to page maps; None ends it."""
        self._backend.watch_pages(sink)

    async def stop(self, grace: float = 5.0) -> None:
        """Stop the process."""
        await self._backend.stop(grace)
