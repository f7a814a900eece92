"""Single logits changed in place: bias, penalties, what repetitions cost."""

from __future__ import annotations

from ctypes import c_int
from dataclasses import dataclass

import torch

from .launch.kernel_arguments import pointer
from .launch.kernel_library import KernelLibrary

ENTRY_KINDS = 3
"""In their order: added (bias), penalised (divided, then taken off), taken off."""


@dataclass(frozen=True)
class LogitEntries:
    """Changes to rows of logits; each row's are made kind by kind.

    Entries `offsets[kind, row]` up to `offsets[kind, row + 1]` are a row's, each of another token.
    `offsets` (kinds, rows + 1) and `tokens` (entries) int32; `values` (entries, 3) float32: the
    number, or for a penalty the divisor (factor of negative logits), what is then taken off, and
    what is if the token was said once more.

    That is so for `drawn[awaited[row]]`, if `awaited` (rows) int32 is not -1: a token that only
    the device knows, in `drawn` int64. If it has no entry, `first` (rows, 2) float32 is its own.
    """

    offsets: torch.Tensor
    tokens: torch.Tensor
    values: torch.Tensor
    awaited: torch.Tensor | None = None
    first: torch.Tensor | None = None
    drawn: torch.Tensor | None = None


class AdjustLogits:
    """The operation on kernels of a library."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def apply(self, logits: torch.Tensor, entries: LogitEntries) -> None:
        """Change `logits` (rows, vocab) float32; raises `ValueError` where shapes do not fit."""
        rows = len(logits)
        if entries.offsets.shape != (ENTRY_KINDS, rows + 1):
            shape = tuple(entries.offsets.shape)
            raise ValueError(f"Entries {shape} are not those of {rows} rows.")
        if entries.awaited is not None and (entries.first is None or entries.drawn is None):
            raise ValueError("Tokens are awaited, but it is not said from where.")
        if logits.dtype != torch.float32 or logits.stride(-1) != 1:
            raise ValueError(f"Logits cannot be changed as {logits.dtype}.")
        self._library.launch(
            "adjust_logits.cuh",
            "adjust_logits",
            (rows, 1, 1),
            (128, 1, 1),
            (
                pointer(logits),
                pointer(entries.offsets),
                pointer(entries.tokens),
                pointer(entries.values),
                pointer(entries.awaited),
                pointer(entries.first),
                pointer(entries.drawn),
                c_int(logits.stride(0)),
            ),
        )
