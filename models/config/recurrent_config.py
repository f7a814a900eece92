"""The settings of layers that keep a state of fixed size in the place of keys and values."""

from __future__ import annotations

from math import prod

from ingle.kernels.recurrent.recurrent_shapes import (
    DeltaNetShape,
    ShortConvShape,
    StateSpaceShape,
)

RecurrentConfig = ShortConvShape | DeltaNetShape | StateSpaceShape
"""A layer of any kind that has a state."""


def state_elements(config: RecurrentConfig) -> int:
    """Numbers that one layer keeps of a sequence."""
    return sum(prod(shape) for shape in config.state_shapes)
