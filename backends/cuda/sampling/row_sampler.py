"""Sample from rows of logits in torch, each row with its own parameters."""

from __future__ import annotations

from enum import Enum

import numpy as np
import torch
from numpy.typing import NDArray

from ...base.sampling_params import SamplingParams
from .candidates import Candidates, leave_out_by_sigma, likeliest
from .upload import upload

_WIDEST_TOP = 1024
"""With a larger `top_k` it is cheaper to sort the whole vocabulary."""

NUMBERS: tuple[str, ...] = (
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "xtc_probability",
    "xtc_threshold",
)
"""The options that `RowSampler` implements, in the order of `SamplingState.numbers`."""


class SamplingPath(Enum):
    """How a sequence's tokens are found: each needs more work than the one before."""

    GREEDY = "the largest logit"
    UNSORTED = "a draw among all, in any order"
    TOP_K = "a draw among the likeliest few"
    SORTED = "a draw among all, sorted"
    MIROSTAT = "a draw that depends on the one before"


def sampling_path(params: SamplingParams) -> SamplingPath:
    """The cheapest path that the parameters allow."""
    if params.temperature <= 0:
        return SamplingPath.GREEDY
    if params.mirostat:
        return SamplingPath.MIROSTAT
    if 0 < params.top_k <= _WIDEST_TOP:
        return SamplingPath.TOP_K
    cuts = params.typical_p < 1 or params.top_p < 1 or params.xtc_probability > 0
    return SamplingPath.SORTED if params.top_k > 0 or cuts else SamplingPath.UNSORTED


class RowSampler:
    """The samplers of `SamplingParams` from `top_n_sigma` to the draw, for rows of one path.

    Options that no row sets are skipped; rows that do not set an option stay as they are. Both are
    known on the host, so that nothing has to be read back.
    """

    def __init__(
        self, route: SamplingPath, numbers: NDArray[np.float64], device: torch.device
    ) -> None:
        """`numbers` (rows, parameters) are in the order of `NUMBERS`."""
        self._route = route
        self._host = {name: numbers[:, i] for i, name in enumerate(NUMBERS)}
        uploaded = upload(numbers, device)
        self._device = {name: uploaded[:, i : i + 1] for i, name in enumerate(NUMBERS)}

    def draw(self, logits: torch.Tensor, random: torch.Tensor) -> torch.Tensor:
        """One token for each row of `logits` (rows, vocab); two random numbers a row."""
        return self.reduce(logits, random).draw(random[:, :1])

    def reduce(self, logits: torch.Tensor, random: torch.Tensor) -> Candidates:
        """The candidates that remain, scaled by the temperature."""
        numbers = self._device
        left = self._candidates(logits)
        if self._any("typical_p", below=1):
            left.typical(numbers["typical_p"])
        if self._any("top_p", below=1):
            left.top_p(numbers["top_p"])
        if self._any("min_p"):
            left.min_p(numbers["min_p"])
        if self._any("xtc_probability"):
            left.xtc(numbers["xtc_probability"], numbers["xtc_threshold"], random[:, 1:])
        temperature = numbers["temperature"]
        if self._any("dynatemp_range"):
            temperature = left.dynamic_temperature(
                temperature, numbers["dynatemp_range"], numbers["dynatemp_exponent"]
            )
        left.scale(temperature)
        return left

    def _candidates(self, logits: torch.Tensor) -> Candidates:
        """All that have a chance, or of these the first `top_k`."""
        size = (logits != -torch.inf).sum(-1, keepdim=True)
        if self._any("top_n_sigma"):
            logits = leave_out_by_sigma(logits, self._device["top_n_sigma"])
        if self._route is SamplingPath.UNSORTED:
            ids = torch.arange(logits.shape[-1], device=logits.device).expand_as(logits)
            return Candidates(ids, logits.double(), torch.ones_like(ids, dtype=torch.bool), size)
        width = logits.shape[-1]
        if self._route is SamplingPath.TOP_K:
            width = min(width, int(self._host["top_k"].max()))
        values, ids = likeliest(logits, width)
        if self._any("top_k"):
            top_k = self._device["top_k"].long()
            size = torch.where(top_k > 0, torch.minimum(top_k, size), size)
        alive = torch.arange(width, device=logits.device) < size
        return Candidates(ids, values.double(), alive, size)

    def _any(self, name: str, *, below: float | None = None) -> bool:
        column = self._host[name]
        return bool((column > 0).any() if below is None else (column < below).any())
