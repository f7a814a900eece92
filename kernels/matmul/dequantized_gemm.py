"""Matrix products for prefill: dequantise a part of the weights, then multiply in torch."""

from __future__ import annotations

import torch

from ..formats.weight import Repacked
from ..launch.kernel_library import KernelLibrary
from .dequantize_rows import DequantizeRows

# The most rows of a tensor core tile, so that parts of whole tiles waste no work.
_ROWS = 256


class DequantizedGemm:
    """Linear layers for prefill, for which multiplying takes far longer than dequantising.

    Its workspace of `scratch_bytes` is allocated once on `device`, so only one stream can use it.
    `dtype` is that of activations and outputs, float16 or bfloat16.
    """

    def __init__(
        self,
        library: KernelLibrary,
        dtype: torch.dtype,
        device: torch.device,
        *,
        scratch_bytes: int = 64 << 20,
    ) -> None:
        self._rows = DequantizeRows(library)
        self._scratch = torch.empty(scratch_bytes // dtype.itemsize, dtype=dtype, device=device)

    def __call__(
        self,
        x: torch.Tensor,
        weight: Repacked,
        bias: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`x` (tokens, inputs) by the transpose of `weight` (outputs, inputs), plus `bias`.

        `out` (tokens, outputs) has x's dtype and may be a slice of wider rows. `bias` (outputs,) is
        float32. Raises `ValueError` if one row exceeds the workspace.
        """
        outputs, inputs = weight.shape
        if out is None:
            out = x.new_empty(len(x), outputs)
        step = self._part(inputs)
        for first in range(0, outputs, step):
            part = slice(first, min(first + step, outputs))
            count = part.stop - part.start
            dense = self._scratch[: count * inputs].view(count, inputs)
            self._rows.following(weight, first, dense)
            torch.mm(x, dense.T, out=out[:, part])
        return out if bias is None else out.add_(bias)

    def _part(self, inputs: int) -> int:
        """The number of rows that fit into the workspace: whole tiles if at least one fits."""
        rows = len(self._scratch) // inputs
        if not rows:
            raise ValueError(f"Scratch memory has no room for a row of {inputs} values.")
        return rows - rows % _ROWS or rows
