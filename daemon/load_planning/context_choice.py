"""Chooses the type of the KV cache, and finds the longest context that a model can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ingle.models.errors import UnsupportedModel
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.kv_type import KVType

if TYPE_CHECKING:
    from ingle.backends.selection.model_placement import Placement

_STEP = 256
_MOST_STEPS = 64


def select_kv_type(
    select: Callable[[KVType], Placement], most: int, available: MemoryNeeds
) -> Placement:
    """Return the placement with 16-bit KV, or with 8-bit KV if only that fits or it allows more.

    `select` places a model with that KV type, whose context is at most `most` tokens.
    """
    plain = select(KVType.F16)
    fits = plain.needs.fits_in(available)
    if plain.context >= most and fits:
        return plain
    try:
        smaller = select(KVType.Q8_0)
    except UnsupportedModel:  # its heads cannot be stored in blocks
        return plain
    if smaller.engine != plain.engine:
        return plain
    longer = smaller.context > plain.context
    return smaller if longer or (not fits and smaller.needs.fits_in(available)) else plain


def longest_context(most: int, select: Callable[[int], Placement], available: MemoryNeeds) -> int:
    """Return the longest context in tokens that would fit, at most `most`; 0 for none.

    It is found by bisection, as a multiple of 256 or of a 64th of `most`.
    """
    step = max(1, most // _STEP // _MOST_STEPS) * _STEP

    def fits(steps: int) -> bool:
        return select(min(steps * step, most)).needs.fits_in(available)

    low, high = 0, max(1, -(-most // step))
    if fits(high):
        return most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * step
