"""A draft: tokens that may follow a sequence, and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Draft:
    """Draft tokens, and for each the probability that it and all before it are accepted."""

    tokens: list[int] = field(default_factory=list[int])
    chances: list[float] = field(default_factory=list[float])

    def cut(self, length: int) -> tuple[int, ...]:
        """The first `length` tokens."""
        return tuple(self.tokens[:length])
