"""Compare the sampling kernel with float64 arithmetic on this device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from .launch.kernel_library import KernelLibrary
from .philox import uniforms
from .token_sampling import SAMPLE_ROW, SamplingKernel, sample_row

_SEED = 3
_DRAWS = 4
_ROUNDING = 1e-5
"""Of cumulated chances: float32 sums of the kernel against float64."""


class _Parameters(NamedTuple):
    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


_CHECKED: Mapping[str, _Parameters] = {
    "greedy": _Parameters(0),
    "temperature": _Parameters(1.5),
    "top_k, top_p and min_p": _Parameters(0.8, 40, 0.95, 0.05),
}


def sampling_failures(library: KernelLibrary, device: torch.device, vocab: int) -> list[str]:
    """A short description of each kind of sampling that draws wrong tokens; waits for the device.

    A token may be its neighbour's only where the random number is next to the border of both.
    """
    kinds = [each for each in _CHECKED.values() for _ in range(_DRAWS)]
    logits = np.random.default_rng(1).normal(0, 2, (len(kinds), vocab)).astype(np.float32)
    rows = [
        sample_row(**kind._asdict(), seed=_SEED, place=place, row=place)
        for place, kind in enumerate(kinds)
    ]
    parameters = torch.as_tensor(np.concatenate(rows).view(np.uint8), device=device)
    tokens = torch.full((len(kinds),), -1, dtype=torch.int64, device=device)
    SamplingKernel(library, device).draw(
        torch.as_tensor(logits, device=device), parameters.view(-1, SAMPLE_ROW.itemsize), tokens
    )
    places = np.arange(len(kinds), dtype=np.uint64)
    numbers = uniforms(np.full_like(places, _SEED), places)[:, 0]
    found = [
        _can_be_drawn(int(token), row, float(number), kind)
        for token, row, number, kind in zip(tokens, logits, numbers, kinds, strict=True)
    ]
    return [
        f"sampling ({name}) draws a wrong token"
        for place, name in enumerate(_CHECKED)
        if not all(found[place * _DRAWS : (place + 1) * _DRAWS])
    ]


def _can_be_drawn(
    token: int, logits: NDArray[np.float32], number: float, kind: _Parameters
) -> bool:
    """Whether `number` (above 0, up to 1) falls into the share of `token`."""
    x = logits.astype(np.float64)
    if kind.temperature == 0:
        return token == int(x.argmax())
    order = np.arange(len(x))
    if kind.top_k or kind.top_p < 1:
        order = np.argsort(-x, kind="stable")
    if kind.top_k:
        order = order[: kind.top_k]
    if kind.top_p < 1:
        chances = np.exp(x[order] - x.max())
        before = chances.cumsum() - chances
        order = order[: max(1, int((before < kind.top_p * chances.sum()).sum()))]
    if kind.min_p > 0:
        order = order[x[order] >= x.max() + math.log(kind.min_p)]
    sums = np.exp((x[order] - x.max()) / kind.temperature).cumsum()
    place = np.flatnonzero(order == token)
    if not len(place):
        return False
    end = sums[place[0]] / sums[-1]
    begin = sums[place[0] - 1] / sums[-1] if place[0] else 0.0
    return bool(begin - _ROUNDING < number <= end + _ROUNDING)
