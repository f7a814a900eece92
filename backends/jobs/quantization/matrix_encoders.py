"""Matrices as quantised checkpoints store them: AWQ, GPTQ and FP8.

Sources: AutoAWQ's GEMM layout, GPTQModel's layout of version 1, compressed-tensors.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .messages import QuantizationTarget

_GROUPS = (128, 64, 32)
"""Inputs that may share a scale, in AWQ and GPTQ."""
_BITS, _LEVELS, _IN_A_WORD = 4, 15, 8
# Which of eight outputs is at each place of a word of the GEMM layout.
_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_SHRINKS = tuple(1 - step / 40 for step in range(16))
"""Of a group's range: what lies outside is cut off, if that costs less than coarser steps."""
_LARGEST_FP8 = 448.0


class PlannedPart(NamedTuple):
    """A tensor of an encoded matrix, by the end of its name."""

    ending: str
    dtype: str
    shape: tuple[int, ...]


class MatrixEncoder(ABC):
    """Encodes matrices (outputs, inputs) of linear layers; `group` inputs may share a scale."""

    def __init__(self, group: int) -> None:
        self._group = group

    @abstractmethod
    def settings(self, dense: Sequence[str]) -> Mapping[str, Any]:
        """Return `quantization_config`; `dense` are the linear layers that are left as they are."""

    @abstractmethod
    def parts(self, rows: int, columns: int) -> Sequence[PlannedPart]:
        """Return what a matrix of this size becomes; nothing if it does not fit the format."""

    @abstractmethod
    def encode(self, weights: torch.Tensor, importance: torch.Tensor | None) -> list[torch.Tensor]:
        """Return the tensors of `parts` for float32 weights; `importance` is that of the inputs."""


class AWQEncoder(MatrixEncoder):
    """Four bits with a zero point, packed along the outputs."""

    def settings(self, dense: Sequence[str]) -> Mapping[str, Any]:
        """See `MatrixEncoder`."""
        return {
            "quant_method": "awq",
            "version": "gemm",
            "bits": _BITS,
            "group_size": self._group,
            "zero_point": True,
            "modules_to_not_convert": list(dense) or None,
        }

    def parts(self, rows: int, columns: int) -> Sequence[PlannedPart]:
        """See `MatrixEncoder`."""
        if rows % _IN_A_WORD or columns % self._group:
            return ()
        groups, words = columns // self._group, rows // _IN_A_WORD
        return (
            PlannedPart("qweight", "I32", (columns, words)),
            PlannedPart("qzeros", "I32", (groups, words)),
            PlannedPart("scales", "F16", (groups, rows)),
        )

    def encode(self, weights: torch.Tensor, importance: torch.Tensor | None) -> list[torch.Tensor]:
        """See `MatrixEncoder`."""
        codes, zeros, scales = rounded_groups(weights, self._group, importance, symmetric=False)
        packed = [_packed(_words(each.T)[..., _ORDER]) for each in (codes, zeros)]
        return [*packed, scales.T.contiguous()]


class GPTQEncoder(MatrixEncoder):
    """Four bits around zero, packed along the inputs."""

    def settings(self, dense: Sequence[str]) -> Mapping[str, Any]:
        """See `MatrixEncoder`."""
        left: dict[str, dict[str, int]] = {f"-:^{re.escape(name)}$": {} for name in dense}
        return {
            "quant_method": "gptq",
            "checkpoint_format": "gptq",
            "bits": _BITS,
            "group_size": self._group,
            "sym": True,
            "desc_act": False,
            "lm_head": False,
            **({"dynamic": left} if left else {}),
        }

    def parts(self, rows: int, columns: int) -> Sequence[PlannedPart]:
        """See `MatrixEncoder`."""
        if rows % _IN_A_WORD or columns % self._group:
            return ()
        groups = columns // self._group
        return (
            PlannedPart("qweight", "I32", (columns // _IN_A_WORD, rows)),
            PlannedPart("qzeros", "I32", (groups, rows // _IN_A_WORD)),
            PlannedPart("scales", "F16", (groups, rows)),
            PlannedPart("g_idx", "I32", (columns,)),
        )

    def encode(self, weights: torch.Tensor, importance: torch.Tensor | None) -> list[torch.Tensor]:
        """See `MatrixEncoder`."""
        codes, zeros, scales = rounded_groups(weights, self._group, importance, symmetric=True)
        return [
            _packed(_words(codes)).T.contiguous(),
            _packed(_words((zeros - 1).T)),  # version 1 stores them less one
            scales.T.contiguous(),
            torch.arange(weights.shape[1], dtype=torch.int32) // self._group,
        ]


class FP8Encoder(MatrixEncoder):
    """E4M3 with a scale for each output; products round their inputs as they come."""

    def settings(self, dense: Sequence[str]) -> Mapping[str, Any]:
        """See `MatrixEncoder`."""
        float8 = {"num_bits": 8, "type": "float", "symmetric": True}
        scheme = {
            "targets": ["Linear"],
            "weights": {**float8, "strategy": "channel", "dynamic": False},
            "input_activations": {**float8, "strategy": "token", "dynamic": True},
        }
        return {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "quantization_status": "compressed",
            "config_groups": {"group_0": scheme},
            "ignore": ["lm_head", *dense],
        }

    def parts(self, rows: int, columns: int) -> Sequence[PlannedPart]:
        """See `MatrixEncoder`."""
        return (
            PlannedPart("weight", "F8_E4M3", (rows, columns)),
            PlannedPart("weight_scale", "F32", (rows, 1)),
        )

    def encode(self, weights: torch.Tensor, importance: torch.Tensor | None) -> list[torch.Tensor]:
        """See `MatrixEncoder`."""
        del importance  # a float's rounding error is relative
        scales = weights.abs().amax(1, keepdim=True) / _LARGEST_FP8
        scales[scales == 0] = 1
        return [(weights / scales).to(torch.float8_e4m3fn), scales]


_ENCODERS: Mapping[QuantizationTarget, type[MatrixEncoder]] = {
    QuantizationTarget.AWQ: AWQEncoder,
    QuantizationTarget.GPTQ: GPTQEncoder,
    QuantizationTarget.FP8: FP8Encoder,
}


def choose_encoder(
    target: QuantizationTarget, matrices: Sequence[tuple[int, int]]
) -> MatrixEncoder:
    """Return the encoder that fits most of these matrices, of the largest such group."""
    encoders = [_ENCODERS[target](group) for group in _GROUPS]
    fitting = [sum(bool(each.parts(*shape)) for shape in matrices) for each in encoders]
    return encoders[fitting.index(max(fitting))]


def rounded_groups(
    weights: torch.Tensor, group: int, importance: torch.Tensor | None, *, symmetric: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return codes (rows, columns) and zero points (rows, groups) uint8, scales float16.

    Of the ranges tried for each group the one with the least squared error is kept, in which each
    input counts by its `importance` (columns,).
    """
    groups = weights.reshape(len(weights), -1, group)
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    counts = None if importance is None else importance.view(-1, group)
    best = torch.full_like(low, torch.inf)
    scales, zeros = torch.ones_like(low), torch.zeros_like(low)
    for shrink in _SHRINKS:
        scale, zero = _grid(low * shrink, high * shrink, symmetric=symmetric)
        error = (_rounded(groups, scale, zero) - zero[..., None]) * scale[..., None] - groups
        error = error.square() if counts is None else error.square() * counts
        total = error.sum(-1)
        better = total < best
        best, scales, zeros = (
            torch.where(better, new, old)
            for new, old in ((total, best), (scale, scales), (zero, zeros))
        )
    codes = _rounded(groups, scales, zeros).flatten(1)
    return codes.to(torch.uint8), zeros.to(torch.uint8), scales.half()


def _grid(
    low: torch.Tensor, high: torch.Tensor, *, symmetric: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale, a float16 in float32, and the zero point of a range."""
    scale = (2 * torch.maximum(-low, high) if symmetric else high - low) / _LEVELS
    scale = scale.half().float()
    scale[scale == 0] = 1
    if symmetric:
        return scale, torch.full_like(scale, (_LEVELS + 1) // 2)
    return scale, (-low / scale).round_().clamp_(0, _LEVELS)


def _rounded(groups: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    return (groups / scale[..., None] + zero[..., None]).round_().clamp_(0, _LEVELS)


def _words(codes: torch.Tensor) -> torch.Tensor:
    return codes.reshape(len(codes), -1, _IN_A_WORD)


def _packed(codes: torch.Tensor) -> torch.Tensor:
    """Words (rows, n) int32 of codes (rows, n, 8) uint8, the first in the lowest bits."""
    pairs = (codes[..., ::2] | codes[..., 1::2] << 4).contiguous()
    return pairs.view(torch.int32).squeeze(-1)
