"""Single logits changed in place: bias, penalties, what repetitions cost."""

from __future__ import annotations

from ctypes import c_int

import torch

from .arguments import pointer
from .kernel_library import KernelLibrary

KINDS = 3
"""In their order: added (bias), penalised (divided, then taken off), taken off."""


class AdjustLogits:
    """The operation on kernels of a library."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def apply(
        self,
        logits: torch.Tensor,
        offsets: torch.Tensor,
        tokens: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """Change `logits` (rows, vocab) float32, each row by its entries of each kind in turn.

        Entries `offsets[kind, row]` up to `offsets[kind, row + 1]` are a row's, each of another
        token. `offsets` (kinds, rows + 1) and `tokens` (entries) int32, `values` (entries, 2)
        float32: the number, or for a penalty the divisor (factor of negative logits) and what is
        then taken off. Raises `ValueError` where shapes do not fit.
        """
        rows = len(logits)
        if offsets.shape != (KINDS, rows + 1) or values.shape != (len(tokens), 2):
            raise ValueError(f"Entries {tuple(offsets.shape)} are not those of {rows} rows.")
        if logits.dtype != torch.float32 or logits.stride(-1) != 1:
            raise ValueError(f"Logits cannot be changed as {logits.dtype}.")
        self._library.launch(
            "adjust_logits.cuh",
            "adjust_logits",
            (rows, 1, 1),
            (128, 1, 1),
            (
                pointer(logits),
                pointer(offsets),
                pointer(tokens),
                pointer(values),
                c_int(logits.stride(0)),
            ),
        )
