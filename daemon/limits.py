"""What the owner of a daemon allows at most, whatever a client asks for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

import msgspec

from ingle.backends.base import (
    Backend,
    Embedded,
    EmbedRequest,
    Event,
    EventSink,
    Gauges,
    GenerateRequest,
    LoadProgress,
    ModelInfo,
    Reranked,
    RerankRequest,
    Tokenized,
    TokenizeRequest,
)
from ingle.backends.page_map import PagesSink

from .config import Config


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Caps and defaults; 0 tokens are no cap and no default, -1 seconds no cap."""

    max_tokens: int = 0
    default_max_tokens: int = 0
    max_context: int = 0
    max_keep_alive: float = -1.0

    @classmethod
    def of(cls, config: Config) -> Limits:
        """Those of the configuration."""
        return cls(
            max_tokens=config.max_tokens,
            default_max_tokens=config.default_max_tokens,
            max_context=config.max_context,
            max_keep_alive=config.max_keep_alive,
        )

    def tokens(self, asked: int | None) -> int | None:
        """Tokens of one answer; None for as many as the context holds."""
        wanted = self.default_max_tokens or None if asked is None else asked
        if not self.max_tokens:
            return wanted
        return self.max_tokens if wanted is None else min(wanted, self.max_tokens)

    def context(self, asked: int | None) -> int | None:
        """Tokens of context; None where nobody asked, which the loading then bounds."""
        return asked if asked is None or not self.max_context else min(asked, self.max_context)

    def keep_alive(self, asked: float) -> float:
        """Seconds, -1 for ever."""
        if self.max_keep_alive < 0:
            return asked
        return self.max_keep_alive if asked < 0 else min(asked, self.max_keep_alive)

    def apply(self, backend: Backend) -> Backend:
        """The backend, with its answers bounded where there is a bound."""
        bounded = self.max_tokens or self.default_max_tokens
        return BoundedBackend(backend, self) if bounded else backend


class BoundedBackend:
    """A backend whose answers are no longer than `limits` allow."""

    def __init__(self, backend: Backend, limits: Limits) -> None:
        self._backend = backend
        self._limits = limits

    @property
    def state(self) -> Literal["new", "starting", "ready", "stopping", "dead"]:
        """The backend's."""
        return self._backend.state

    @property
    def pid(self) -> int | None:
        """The backend's."""
        return self._backend.pid

    @property
    def gauges(self) -> Gauges:
        """The backend's."""
        return self._backend.gauges

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        """Load the model."""
        return await self._backend.start(on_progress)

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Yield the request's events."""
        return self._backend.generate(self._bounded(request))

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """Pass the request's events to `sink`."""
        await self._backend.run(self._bounded(request), sink)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Turn texts into vectors."""
        return await self._backend.embed(request)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Score documents."""
        return await self._backend.rerank(request)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Turn text into tokens, or back."""
        return await self._backend.tokenize(request)

    async def wait_dead(self) -> str:
        """Return once the backend is dead."""
        return await self._backend.wait_dead()

    def trim(self) -> None:
        """Ask for memory back."""
        self._backend.trim()

    def watch_pages(self, sink: PagesSink | None) -> None:
        """Look at pages, or no longer."""
        self._backend.watch_pages(sink)

    async def stop(self, grace: float = 5.0) -> None:
        """End the model."""
        await self._backend.stop(grace)

    def _bounded(self, request: GenerateRequest) -> GenerateRequest:
        tokens = self._limits.tokens(request.max_tokens)
        if tokens == request.max_tokens:
            return request
        return msgspec.structs.replace(request, max_tokens=tokens)
