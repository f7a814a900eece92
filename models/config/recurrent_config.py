"""The settings of layers that keep a state of fixed size in the place of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ingle.kernels.recurrent.delta_shape import DeltaNetShape

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


@dataclass(frozen=True)
class DeltaNetConfig(DeltaNetShape):
    """A gated DeltaNet with a convolution over the last `kernel` tokens."""

    @property
    def state_shapes(self) -> tuple[Shape, ...]:
        """The inputs that the next token's convolution needs, and a matrix a head; fp32."""
        matrices = (self.value_heads, self.key_size, self.value_size)
        return ((self.channels, self.kernel - 1), matrices)


@dataclass(frozen=True, kw_only=True)
class StateSpaceConfig:
    """A state space (Mamba-2) with a convolution over the last `kernel` tokens.

    Each of `heads` has a state of `state_size` by `head_size`; those of a group, which are
    consecutive, are written and read alike.
    """

    heads: int
    head_size: int
    groups: int
    state_size: int
    kernel: int

    @property
    def width(self) -> int:
        """Elements of a token's inputs."""
        return self.heads * self.head_size

    @property
    def channels(self) -> int:
        """Elements of a token that are convolved: inputs, and where they are written and read."""
        return self.width + 2 * self.groups * self.state_size

    @property
    def state_shapes(self) -> tuple[Shape, ...]:
        """The inputs that the next token's convolution needs, and the states; fp32."""
        states = (self.heads, self.state_size, self.head_size)
        return ((self.channels, self.kernel - 1), states)


RecurrentConfig = ShortConvConfig | DeltaNetConfig | StateSpaceConfig
"""A layer of any kind that has a state."""


def state_elements(config: RecurrentConfig) -> int:
    """Numbers that one layer keeps of a sequence."""
    return sum(prod(shape) for shape in config.state_shapes)
