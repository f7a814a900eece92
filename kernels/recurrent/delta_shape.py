"""The shape of a gated DeltaNet, and whether kernels know it; without PyTorch."""

from __future__ import annotations

from typing import NamedTuple

DELTA_HEAD = 128
"""Elements of the keys and values that kernels know."""
DELTA_TAPS = 4
"""Inputs of the convolution that they know."""


class DeltaNetShape(NamedTuple):
    """The heads of keys and of values, their sizes, and the inputs of the convolution.

    Heads of values take turns with those of keys, or else are neighbours if they share one.
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
        """Elements of a token's queries, keys and values."""
        return 2 * self.key_width + self.value_width


def has_delta_kernels(key_size: int, value_size: int, kernel: int) -> bool:
    """Whether there are kernels for heads and a convolution of these sizes."""
    return (key_size, value_size, kernel) == (DELTA_HEAD, DELTA_HEAD, DELTA_TAPS)
