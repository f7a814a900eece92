"""FP8 (e4m3) in plain torch: weights dequantised, and inputs rounded as their format says."""

from __future__ import annotations

import torch

from .weight import FP8_BLOCK, FP8Tensor

FP8_LARGEST = 448.0
# The scale of smaller values would lose its own bits.
_SMALLEST = 1e-30


def dequantize_fp8(weight: FP8Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The weights (rows, columns) in `dtype`: their float32 values, rounded once."""
    rows, columns = weight.shape
    scales = weight.scales
    if weight.scaling == "block":
        scales = scales.repeat_interleave(FP8_BLOCK, 0)[:rows]
        scales = scales.repeat_interleave(FP8_BLOCK, 1)[:, :columns]
    return weight.codes.float().mul_(scales).to(dtype)


def quantize_fp8_reference(
    x: torch.Tensor, scale: torch.Tensor | None = None, *, group: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """`x` (tokens, inputs) of any float type as float8_e4m3fn and scales float32.

    With a `scale` () values beyond its range become the largest ones, and the scales are this one.
    Otherwise they are (tokens, 1), or with a `group` (tokens, inputs / group): the largest
    magnitude becomes the largest value.
    """
    exact = x.float()
    if scale is not None:
        return _codes(exact / scale), scale
    groups = exact.view(len(exact), -1, group or exact.shape[1])
    largest = groups.abs().amax(2, keepdim=True)
    scales = torch.where(largest < _SMALLEST, 0.0, largest / FP8_LARGEST)
    quotients = torch.where(largest < _SMALLEST, 0.0, groups / scales)
    return _codes(quotients).flatten(1), scales[..., 0]


def round_inputs(x: torch.Tensor, weight: FP8Tensor) -> torch.Tensor:
    """`x` (..., inputs) with the values that it has in a product with these weights."""
    rows = x.flatten(0, -2)
    group = FP8_BLOCK if weight.scaling == "block" else x.shape[-1]
    codes, scales = quantize_fp8_reference(rows, weight.input_scale, group=group)
    if weight.input_scale is None:
        scales = scales.repeat_interleave(group, 1)
    return (codes.float() * scales).view(x.shape).to(x.dtype)


def _codes(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(-FP8_LARGEST, FP8_LARGEST).to(torch.float8_e4m3fn)
