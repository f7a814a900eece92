"""Upper limits that the configuration sets for requests and models."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ingle.backends.base.load_spec import LoadSpec
from ingle.models.fit.memory_needs import MemoryNeeds

from ..settings.config import Config


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

    def apply(self, spec: LoadSpec) -> LoadSpec:
        """Return the spec, with the limits of its answers."""
        return msgspec.structs.replace(
            spec, max_tokens=self.max_tokens, default_max_tokens=self.default_max_tokens
        )
