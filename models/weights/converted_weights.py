"""Weights that are quantised or dequantised while they are loaded."""

from __future__ import annotations

import re

import torch

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.nf4 import (
    dequantize_nf4_blocks,
    quantize_absmax,
    quantize_nf4,
    quantize_nf4_blocks,
)
from ingle.kernels.formats.weight import Weight

from .tensor_part import without_fp8
from .weights import Weights

_BLOCK_SIZE = 64
_LM_HEADS = ("output.weight", "lm_head.weight")
_OF_A_LAYER = re.compile(r"(?:^blk|\blayers)\.\d+\..*\bweight$")
_ROUTER = re.compile(r"\.ffn_gate_inp\.|\.altup_|\.(?:mlp|block_sparse_moe)\.(?:gate|router)\.")
_CONVOLUTION = re.compile(r"\.(?:ssm_conv1d|shortconv\.conv)\.")


class DequantizedWeights:
    """The tensors of `source`, all matrices of them as `dtype`; vectors stay as they are.

    On a CPU, where the reference operations unpack quantised weights anew for every step, this
    makes a step several times as quick.
    """

    def __init__(self, source: Weights, dtype: torch.dtype) -> None:
        self._source = source
        self.names = source.names
        self._dtype = dtype

    def get(self, name: str) -> torch.Tensor:
        """The tensor; raises what the source raises."""
        weight = self._source.get(name)
        if not isinstance(weight, torch.Tensor):
            return dequantize(weight, self._dtype)
        return weight.to(self._dtype) if weight.ndim > 1 else weight


class NF4Weights:
    """The tensors of `source`, those of its linear layers in NF4 with double quantisation.

    Embeddings, norms, biases, routers and convolutions stay as they are, quantised tensors too, and
    the LM head unless `lm_head`. Names may be those of GGUF files or of checkpoints; values are
    those that bitsandbytes gives to the same matrices on a CPU.
    """

    def __init__(
        self, source: Weights, *, device: torch.device | None = None, lm_head: bool = False
    ) -> None:
        """`device` is where to quantise: a GPU takes seconds for what a CPU takes minutes for.

        The mean of a matrix's scales may then differ in its last bit.
        """
        self._source = source
        self.names = source.names
        self._device = device
        self._lm_head = lm_head

    def get(self, name: str) -> Weight:
        """The tensor; raises what the source raises."""
        weight = without_fp8(self._source.get(name))
        if not isinstance(weight, torch.Tensor) or weight.ndim != 2 or not self._quantizes(name):
            return weight
        if self._device is not None:
            weight = weight.to(self._device)
        if weight.shape[1] % _BLOCK_SIZE == 0:
            return quantize_nf4(weight, block_size=_BLOCK_SIZE)
        return _round_to_nf4(weight)

    def _quantizes(self, name: str) -> bool:
        if name in _LM_HEADS:
            return self._lm_head
        if _ROUTER.search(name) or _CONVOLUTION.search(name):
            return False
        return _OF_A_LAYER.search(name) is not None


def _round_to_nf4(weight: torch.Tensor) -> torch.Tensor:
    """The values NF4 gives a matrix whose rows are not whole blocks; no kernel takes its codes."""
    codes, absmax = quantize_nf4_blocks(weight, _BLOCK_SIZE)
    quantized, nested = quantize_absmax(absmax)
    scales = nested.scales(quantized)
    return dequantize_nf4_blocks(codes, scales, weight.numel(), _BLOCK_SIZE, weight.dtype).view(
        weight.shape
    )
