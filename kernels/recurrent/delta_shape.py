"""The shape of a gated DeltaNet, and whether kernels know it; without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

DELTA_HEAD = 128
"""Elements of the keys and values that kernels know."""
DELTA_TAPS = 4
"""Inputs of the convolution that they know."""


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


def has_delta_kernels(key_size: int, value_size: int, kernel: int) -> bool:
    """Whether there are kernels for heads and a convolution of these sizes."""
    return (key_size, value_size, kernel) == (DELTA_HEAD, DELTA_HEAD, DELTA_TAPS)
