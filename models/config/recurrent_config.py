"""The settings of layers that keep a state of fixed size in the place of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ShortConvConfig:
    """A gated convolution over the last `kernel` tokens, each of `channels` by itself."""

    channels: int
    kernel: int

    @property
    def state_shapes(self) -> tuple[Shape, ...]:
        """The inputs that the next token's convolution needs, fp32."""
        return ((self.channels, self.kernel - 1),)


RecurrentConfig = ShortConvConfig
"""A layer of any kind that has a state."""


def state_elements(config: RecurrentConfig) -> int:
    """Numbers that one layer keeps of a sequence."""
    return sum(prod(shape) for shape in config.state_shapes)
