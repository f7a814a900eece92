"""A guess at the tokens that follow a sequence."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Draft:
    """Guessed tokens, and for each the chance that it and all before it are right."""

    tokens: list[int] = field(default_factory=list[int])
    chances: list[float] = field(default_factory=list[float])

    def cut(self, length: int) -> tuple[int, ...]:
        """The first `length` tokens."""
        return tuple(self.tokens[:length])
