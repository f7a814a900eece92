"""Random numbers that are a function of their place in a stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_UNUSED_BITS = np.uint64(11)


def philox(counters: Words, keys: Words) -> Words:
    """Philox4x32-10 (Salmon et al. 2011): counters (n, 4) and keys (n, 2) of 32 bits to (n, 4)."""
    a, b, c, d = (counters[:, word] for word in range(4))
    low, high = keys[:, 0], keys[:, 1]
    for _ in range(_ROUNDS):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (
            (second >> _WORD) ^ b ^ low,
            second & _LOW,
            (first >> _WORD) ^ d ^ high,
            (first & _LOW),
        )
        low, high = (low + _WEYL[0]) & _LOW, (high + _WEYL[1]) & _LOW
    return np.stack((a, b, c, d), axis=1)


def uniforms(seeds: Words, positions: Words) -> NDArray[np.float64]:
    """Two numbers above 0 and up to 1 for each place `positions` of the stream of each seed."""
    zeros = np.zeros_like(positions)
    counters = np.stack((positions & _LOW, positions >> _WORD, zeros, zeros), axis=1)
    words = philox(counters, np.stack((seeds & _LOW, seeds >> _WORD), axis=1))
    wide = (words[:, 0::2] << _WORD) | words[:, 1::2]
    return ((wide >> _UNUSED_BITS).astype(np.float64) + 1.0) * 2.0**-53
