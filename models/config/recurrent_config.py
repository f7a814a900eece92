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


@dataclass(frozen=True, kw_only=True)
class DeltaNetConfig:
    """A gated DeltaNet with a convolution over the last `kernel` tokens.

    Each of `key_heads` serves an equal number of `value_heads`: consecutive ones, or with
    `takes_turns` every `key_heads`-th.
    """

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    kernel: int
    takes_turns: bool

    @property
    def key_width(self) -> int:
        """Elements of a token's keys."""
        return self.key_heads * self.key_size

    @property
    def value_width(self) -> int:
        """Elements of a token's values."""
        return self.value_heads * self.value_size

    @property
    def channels(self) -> int:
        """Elements of a token's queries, keys and values, all of which are convolved."""
        return 2 * self.key_width + self.value_width

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
