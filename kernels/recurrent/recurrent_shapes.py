"""The shapes of recurrent layers, and whether kernels know them; without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]

DELTA_HEAD = 128
"""Elements of a DeltaNet's keys and values."""
SILU_TAPS, GATED_TAPS = 4, 3
"""Inputs of a convolution with SiLU, and of a gated one."""
STATE_SIZES = (128, 256)
"""Elements of a state space for each element of a head."""
_CHANNELS = 128
_WIDEST_GROUP = 8192


@dataclass(frozen=True)
class ShortConvShape:
    """A convolution over the last `kernel` tokens, each of `channels` by itself."""

    channels: int
    kernel: int

    @property
    def state_shapes(self) -> tuple[Shape, ...]:
        """The inputs that the next token's convolution needs, fp32."""
        return ((self.channels, self.kernel - 1),)

    @property
    def has_kernels(self) -> bool:
        """Whether there are kernels for it."""
        return self.kernel == GATED_TAPS and not self.channels % _CHANNELS


@dataclass(frozen=True)
class DeltaNetShape:
    """The heads of keys and of values, their sizes, and the inputs of the convolution.

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

    @property
    def has_kernels(self) -> bool:
        """Whether there are kernels for it."""
        return self.key_size == self.value_size == DELTA_HEAD and self.kernel == SILU_TAPS


@dataclass(frozen=True)
class StateSpaceShape:
    """The heads of a state space, and the inputs of its convolution.

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
    def group_width(self) -> int:
        """Elements of a group, which are normalised together."""
        return self.width // self.groups

    @property
    def channels(self) -> int:
        """Elements of a token that are convolved: inputs, and where they are written and read."""
        return self.width + 2 * self.groups * self.state_size

    @property
    def state_shapes(self) -> tuple[Shape, ...]:
        """The inputs that the next token's convolution needs, and the states; fp32."""
        states = (self.heads, self.state_size, self.head_size)
        return ((self.channels, self.kernel - 1), states)

    @property
    def has_kernels(self) -> bool:
        """Whether there are kernels for it."""
        known = self.state_size in STATE_SIZES and self.kernel == SILU_TAPS
        fits = not (self.channels % _CHANNELS or self.group_width % 32 or self.heads % 4)
        return known and fits and self.group_width <= _WIDEST_GROUP
