"""GEMV of few tokens with the experts picked for them: csrc/expert_gemv.cuh."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_int

import torch

from ..elementwise.activations import TILE_BYTES, dequantize_q8, quantize_q8_reference
from ..formats.dequantize import dequantize
from ..formats.repack import repack
from ..formats.weight import QuantizedTensor, RepackedTensor
from ..formats.weight_format import WEIGHT_FORMATS
from ..launch.kernel_arguments import pointer
from ..launch.kernel_library import KernelLibrary
from .expert_layers import ExpertLayer

MOST_PICKS = 64
"""Products beyond which reading an expert's weights for each of them is slower than other ways."""
_ROWS, _WARPS = 2, 4
LARGEST_ERROR = 1e-8
"""Relative and squared; a wrong kernel is off by about 1."""
# With fewer warps on an SM, loads do not saturate memory.
_WARPS_WANTED = 16


def expert_gemv_reference(
    weight: QuantizedTensor, count: int, tiles: torch.Tensor, picked: torch.Tensor
) -> torch.Tensor:
    """Products (picks, outputs) float64 of quantised activations with `count` experts' matrices.

    `weight` is (count * outputs, inputs), `tiles` (tiles, tokens, 1536), `picked` (tokens, used).
    """
    rows = dequantize_q8(tiles, weight.columns).repeat_interleave(picked.shape[1], 0)
    matrices = dequantize(weight).double().view(count, -1, weight.columns)
    return torch.einsum("poi,pi->po", matrices[picked.flatten()], rows)


class ExpertGemv:
    """Multiplies quantised activations by picked matrices, with the kernels of `library`."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def multiply(
        self,
        layer: ExpertLayer,
        tiles: torch.Tensor,
        picked: torch.Tensor,
        *,
        split: int | None = None,
    ) -> torch.Tensor:
        """Outputs plus biases (picks, outputs) float32 of each token's picked experts.

        `tiles` are (tiles, tokens, 1536), `picked` is (tokens, used) int64; `split` warps share a
        row. Raises `ValueError` if shapes do not fit or `has_expert_kernel` is false.
        """
        weight = layer.weight
        (tokens, used), outputs, inputs = picked.shape, layer.outputs, weight.shape[1]
        if not isinstance(weight, RepackedTensor) or not has_expert_kernel(weight):
            raise ValueError("There are no kernels for experts in this format.")
        if tiles.shape != (-(-inputs // 1024), tokens, TILE_BYTES) or picked.dtype != torch.int64:
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {tokens} by {inputs}.")
        out = torch.empty(tokens * used, outputs, dtype=torch.float32, device=tiles.device)
        # The tiles of a token one after the other, as the kernel for one column reads them.
        own = tiles.transpose(0, 1).contiguous()
        arguments = (
            *map(pointer, (weight.data, own, picked.contiguous(), layer.bias, out)),
            *map(c_int, (outputs, inputs, weight.data.shape[1], used)),
        )
        if split is None:
            warps = tokens * used * outputs // _ROWS
            split = 1 if warps >= _WARPS_WANTED * self._library.num_sms else 4
        name = weight.format.kernel
        grid = (-(-outputs // (_ROWS * _WARPS // split)), tokens * used, 1)
        kernel, block = f"{name}_experts_s{split}", (32 * _WARPS, 1, 1)
        self._library.launch(f"experts_{name}.cuh", kernel, grid, block, arguments)
        return out


def expert_failures(
    gemv: ExpertGemv, weights: Iterable[QuantizedTensor], device: torch.device
) -> list[str]:
    """A description of each matrix whose rows, as those of two experts, are multiplied wrongly.

    Waits for the device.
    """
    found: list[str] = []
    for weight in weights:
        half = len(weight.data) // 2
        part = weight.rows(slice(0, 2 * half))
        picked = torch.tensor([[1, 0], [0, 1], [1, 0]], device=device)
        generator = torch.Generator(device).manual_seed(1)
        rows = torch.randn(len(picked), part.columns, device=device, generator=generator)
        tiles = quantize_q8_reference(rows)
        right = expert_gemv_reference(part, 2, tiles, picked)
        result = gemv.multiply(ExpertLayer(repack(part), 2), tiles, picked).double()
        error = float((result - right).square().sum() / right.square().sum())
        if not error <= LARGEST_ERROR:
            found.append(f"{weight.type} by picked experts is off by {error:.1e}")
    return found


def has_expert_kernel(weight: QuantizedTensor | RepackedTensor) -> bool:
    """Whether there is a kernel for experts in this format."""
    form = WEIGHT_FORMATS.get(weight.type)
    return form is not None and form.has_expert_kernel
