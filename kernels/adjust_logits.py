"""Adjust single logits in place: biases, and penalties for repeated tokens."""

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
    """Changes to rows of logits, applied to each row kind by kind.

    Entries `offsets[kind, row]` up to `offsets[kind, row + 1]` belong to a row, each with another
    token. `offsets` (kinds, rows + 1) and `tokens` (entries) are int32; `values` (entries, 3)
    float32 hold the number to add, or for a penalty the divisor (the factor of negative logits),
    the number to subtract, and the number to subtract if the token was generated once more.

    That last number applies to `drawn[awaited[row]]` if `awaited` (rows) int32 is not -1: a token
    that only the device knows yet, in `drawn` int64. If that token has no entry, the row's own
    `first` (rows, 2) float32 applies.
    """

    offsets: torch.Tensor
    tokens: torch.Tensor
    values: torch.Tensor
    awaited: torch.Tensor | None = None
    first: torch.Tensor | None = None
    drawn: torch.Tensor | None = None


def launch_adjust_logits(
    library: KernelLibrary, logits: torch.Tensor, entries: LogitEntries
) -> None:
    """Apply `entries` to `logits` (rows, vocab) float32 in place, by a kernel of the library.

    Raises `ValueError` if shapes do not fit.
    """
    rows = len(logits)
    if entries.offsets.shape != (ENTRY_KINDS, rows + 1):
        shape = tuple(entries.offsets.shape)
        raise ValueError(f"Entries {shape} are not those of {rows} rows.")
    if entries.awaited is not None and (entries.first is None or entries.drawn is None):
        raise ValueError("Tokens are awaited, but it is not said from where.")
    if logits.dtype != torch.float32 or logits.stride(-1) != 1:
        raise ValueError(f"Logits cannot be changed as {logits.dtype}.")
    library.launch(
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
