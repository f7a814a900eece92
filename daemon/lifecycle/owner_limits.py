"""Upper limits that the configuration sets for requests and models."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import msgspec

from ingle.backends.base.backend import Backend
from ingle.backends.base.events import Event, EventSink
from ingle.backends.base.requests import GenerateRequest
from ingle.models.fit.memory_needs import MemoryNeeds

from ..settings.config import Config
from .wrapped_backend import BackendWrapper


@dataclass(frozen=True, kw_only=True)
class OwnerLimits:
    """Limits and defaults. For tokens 0 means neither limit nor default, for seconds -1 means no
    limit.
    """

    max_tokens: int = 0
    default_max_tokens: int = 0
    max_context: int = 0
    max_keep_alive: float = -1.0
    memory: MemoryNeeds = field(default_factory=MemoryNeeds)
    """Limit for all models together; 0 is no limit."""

    shrink_context: bool = False
    """Whether a model may get a smaller context than planned if memory is short."""

    @classmethod
    def of(cls, config: Config) -> OwnerLimits:
        """Return the limits of the configuration."""
        return cls(
            max_tokens=config.max_tokens,
            default_max_tokens=config.default_max_tokens,
            max_context=config.max_context,
            max_keep_alive=config.max_keep_alive,
            memory=MemoryNeeds(config.memory_limit, config.vram_limit),
            shrink_context=config.shrink_context,
        )

    def tokens(self, asked: int | None) -> int | None:
        """Return the limit of one answer in tokens; None for the rest of the context."""
        wanted = self.default_max_tokens or None if asked is None else asked
        if not self.max_tokens:
            return wanted
        return self.max_tokens if wanted is None else min(wanted, self.max_tokens)

    def context(self, asked: int | None) -> int | None:
        """Return the context in tokens; None if none was requested, to let the load planner
        choose.
        """
        return asked if asked is None or not self.max_context else min(asked, self.max_context)

    def keep_alive(self, asked: float) -> float:
        """Return the keep-alive in seconds; -1 for ever."""
        if self.max_keep_alive < 0:
            return asked
        return self.max_keep_alive if asked < 0 else min(asked, self.max_keep_alive)

    def apply(self, backend: Backend) -> Backend:
        """Return the backend, with its answers limited if a limit is set."""
        bounded = self.max_tokens or self.default_max_tokens
        return BoundedBackend(backend, self) if bounded else backend


class BoundedBackend(BackendWrapper):
    """A backend that limits the length of answers."""

    def __init__(self, backend: Backend, limits: OwnerLimits) -> None:
        super().__init__(backend)
        self._limits = limits

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Yield the request's events."""
        return super().generate(self._bounded(request))

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """Pass the request's events to `sink`."""
        await super().run(self._bounded(request), sink)

    def _bounded(self, request: GenerateRequest) -> GenerateRequest:
        tokens = self._limits.tokens(request.max_tokens)
        if tokens == request.max_tokens:
            return request
        return msgspec.structs.replace(request, max_tokens=tokens)
