"""Weights that are dequantised when they are loaded: more memory for less work a step."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ingle.kernels.formats.dequantize import dequantize

from .weights import Weights


class DequantizedWeights:
    """The tensors of `source`, all matrices of them as `dtype`; vectors stay as they are.

    On a CPU, where the reference operations unpack quantised weights anew for every step, this
    makes a step several times as quick.
    """

    def __init__(self, source: Weights, dtype: torch.dtype) -> None:
        self._source = source
        self._dtype = dtype

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is."""
        return self._source.names

    def get(self, name: str) -> torch.Tensor:
        """The tensor; raises what the source raises."""
        weight = self._source.get(name)
        if not isinstance(weight, torch.Tensor):
            return dequantize(weight, self._dtype)
        return weight.to(self._dtype) if weight.ndim > 1 else weight
