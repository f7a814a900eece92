"""The inputs of a decoding step, found on the device from those of the step before."""

from __future__ import annotations

from ctypes import c_int
from dataclasses import dataclass

import torch

from .launch.kernel_arguments import pointer
from .launch.kernel_library import KernelLibrary


@dataclass(frozen=True)
class DecodeInputs:
    """What a step reads that has one token of each sequence; all but `tables` may change.

    `token_ids`, `positions` and `slots` (sequences) are int64; `lengths` (sequences) int32 are 0
    for padding; `tables` (sequences, pages) int32. Tokens are those of `known` at `origins`, int64.
    Where `is_continued` (1) int32 is not 0, the step goes on from the one before with the tokens
    `drawn` (sequences) int64. `rows` (sequences, 64) uint8 are the `SAMPLE_ROW`s of the draw.
    """

    known: torch.Tensor
    origins: torch.Tensor
    drawn: torch.Tensor
    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    lengths: torch.Tensor
    tables: torch.Tensor
    is_continued: torch.Tensor
    rows: torch.Tensor


def launch_continue_step(library: KernelLibrary, inputs: DecodeInputs, page_size: int) -> None:
    """Put tokens in place, and from the second launch on move each sequence on by one token.

    The host starts anew by sending all inputs, with `is_continued` 0. `page_size` is a power of 2.
    """
    library.launch(
        "continue_step.cuh",
        "continue_step",
        (1, 1, 1),
        (128, 1, 1),
        (
            pointer(inputs.known),
            pointer(inputs.origins),
            pointer(inputs.drawn),
            pointer(inputs.token_ids),
            pointer(inputs.positions),
            pointer(inputs.slots),
            pointer(inputs.lengths),
            pointer(inputs.tables),
            pointer(inputs.is_continued),
            pointer(inputs.rows),
            c_int(len(inputs.token_ids)),
            c_int(inputs.tables.stride(0)),
            c_int(page_size.bit_length() - 1),
        ),
        overlap=False,  # it is the first of a graph
    )
