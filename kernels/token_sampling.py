"""Sample tokens from rows of logits, each with its own parameters, in one launch."""

from __future__ import annotations

from ctypes import c_int

import numpy as np
import torch
from numpy.typing import NDArray

from .launch.kernel_arguments import pointer
from .launch.kernel_library import KernelLibrary

GROUP = 64
MAX_VOCAB = 3 << 17
"""As many groups as fit into the shared memory that every GPU has for a block."""
LIKELIEST, BY_PLACE, BY_RANK = range(3)
"""Modes of sampling: greedy, in the order of the vocabulary, by descending logits."""

SAMPLE_ROW = np.dtype(
    [
        ("seed", np.uint64),
        ("place", np.uint64),
        ("top_p", np.uint64),
        ("log_min_p", np.float64),
        ("scale_high", np.float32),
        ("scale_low", np.float32),
        ("top_k", np.int32),
        ("mode", np.int32),
        ("row", np.int32),
        ("mask", np.int32),
        ("unused", np.uint64),
    ]
)
"""SampleRow of csrc/sample_row.cuh; made by `sample_row`."""

_WHOLE = 2.0**53
_MAX_WARPS = 16
_GROUPS_AT_ONCE = 4
# The reciprocal of a lower temperature is infinite in float32.
_COLDEST = 1e-30


def sample_row(
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    place: int = 0,
    row: int = 0,
    mask: int = -1,
) -> NDArray[np.void]:
    """The parameters of one sample from row `row`, as an array of one `SAMPLE_ROW`.

    `top_k` 0, `top_p` 1 and `min_p` 0 keep all tokens, temperature 0 is greedy. The random number
    is number `place` of the stream of `seed`; `mask` is a row of the masks, -1 for none.
    """
    mode = BY_RANK if top_k > 0 or top_p < 1 else BY_PLACE
    scale = float(np.log2(np.e)) / max(temperature, _COLDEST)
    asked = np.zeros(1, SAMPLE_ROW)
    asked["seed"], asked["place"], asked["row"], asked["mask"] = seed, place, row, mask
    asked["top_p"] = int(np.ceil(min(max(top_p, 0.0), 1.0) * _WHOLE))
    asked["log_min_p"] = np.log(min(min_p, 1.0)) if min_p > 0 else -np.inf
    asked["scale_high"] = scale
    asked["scale_low"] = scale - float(np.float32(scale))
    asked["top_k"] = min(max(top_k, 0), MAX_VOCAB)
    asked["mode"] = mode if temperature > 0 else LIKELIEST
    return asked


class SamplingKernel:
    """Samples with kernels of a library; keeps the workspace of its launches, on one device.

    Of equal logits the first token is preferred. NaN counts as -infinity; if no token is possible,
    the result is 0. A row's token depends on its logits and parameters alone.
    """

    def __init__(self, library: KernelLibrary, device: torch.device) -> None:
        self._library = library
        self._device = device
        # Never reallocated: a recorded graph may use their addresses.
        self._rooms: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def draw(
        self,
        logits: torch.Tensor,
        rows: torch.Tensor,
        tokens: torch.Tensor,
        masks: torch.Tensor | None = None,
    ) -> None:
        """Write the token of each of `rows` (n, 64) uint8 (`SAMPLE_ROW`s) to `tokens`.

        `logits` (rows, vocab) float32 may be slices of longer rows; `tokens` is (rows) int64.
        `masks` (masks, vocab / 32 rounded up) int32 have bit i mod 32 of word i / 32 set if token i
        is allowed. Raises `ValueError` if shapes do not fit.
        """
        count, vocab = len(rows), logits.shape[-1]
        _check(logits, rows, tokens, masks)
        if not count:
            return
        groups = -(-vocab // GROUP)
        sums, counters = self._room(count, groups)
        self._library.launch(
            "sample.cuh",
            "sample_rows",
            (self._parts(count, groups), count, 1),
            (32 * min(_MAX_WARPS, groups), 1, 1),
            (
                pointer(logits),
                pointer(rows),
                pointer(masks),
                pointer(sums),
                pointer(counters),
                pointer(tokens),
                c_int(vocab),
                c_int(logits.stride(0)),
            ),
            shared_bytes=4 * groups,
        )

    def _parts(self, rows: int, groups: int) -> int:
        """Blocks for a row: two for each SM in all, if there is enough work."""
        most = -(-groups // (_MAX_WARPS * _GROUPS_AT_ONCE))
        return max(1, min(most, 2 * self._library.num_sms // rows))

    def _room(self, rows: int, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The workspace of group sums, and counters, which each launch resets to zero."""
        size = 1 << (rows - 1).bit_length(), groups
        if size not in self._rooms:
            sums = torch.empty(*size, 2, dtype=torch.int32, device=self._device)
            counters = torch.zeros(size[0], dtype=torch.int32, device=self._device)
            self._rooms[size] = sums, counters
        return self._rooms[size]


def _check(
    logits: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor, masks: torch.Tensor | None
) -> None:
    vocab = logits.shape[-1]
    if not 0 < vocab <= MAX_VOCAB or logits.stride(-1) != 1 or logits.dtype != torch.float32:
        raise ValueError(f"Tokens cannot be drawn from {logits.dtype} logits of {vocab} tokens.")
    if rows.shape[-1] != SAMPLE_ROW.itemsize or len(tokens) < len(logits):
        raise ValueError(f"Parameters {tuple(rows.shape)} are not those of draws.")
    if masks is not None and masks.shape[-1] != -(-vocab // 32):
        raise ValueError(f"Masks {tuple(masks.shape)} are not those of {vocab} tokens.")
