"""Combine split-KV attention, undo the rotation of heads, and quantise the result."""

from __future__ import annotations

import math
from ctypes import c_int
from dataclasses import dataclass

import torch

from ..elementwise.activations import GROUP, Activations, q8_tiles, quantize_q8_reference
from ..kv_cache.kv_append import hadamard_reference
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary


@dataclass(frozen=True, eq=False)
class AttentionPartials:
    """Attention of a step's tokens to `splits` parts of their keys, still to be combined.

    `outputs` (splits, tokens, heads, head_size) fp32 are what each part alone would give: weighted
    by a softmax over its keys. `log_sums` (splits, tokens, heads) fp32 are the natural logarithms
    of the sums of exponentials: a split's share is exp(log_sum - log of the sum over all splits).
    Minus infinity marks a split without keys: its output was not written, and may be NaN. Plus
    infinity in split 0 marks a row that was not split: it is in `dense` (tokens, heads, head_size)
    fp16 or bf16, where the other rows go, too. If `log_sums` is None, all rows are in `dense`.
    Heads of quantised values are still rotated. Rows of tokens that belong to no sequence are
    undefined. If there are `combined` activations, nothing is left to be combined.
    """

    dense: torch.Tensor
    outputs: torch.Tensor | None = None
    log_sums: torch.Tensor | None = None
    combined: Activations | None = None

    @property
    def splits(self) -> int:
        """The number of parts; 0 if no row is split."""
        return 0 if self.log_sums is None else self.log_sums.shape[0]


def combine_partials_reference(partials: AttentionPartials) -> torch.Tensor:
    """The combined output (tokens, heads, head_size) fp32, as rotated as the parts are."""
    if partials.outputs is None or partials.log_sums is None:
        return partials.dense.float()
    whole = partials.log_sums[0] == torch.inf
    log_sums = partials.log_sums.masked_fill(whole, -torch.inf)
    shares = (log_sums - torch.logsumexp(log_sums, 0)).exp().nan_to_num(0.0).unsqueeze(-1)
    outputs = partials.outputs.masked_fill(shares == 0, 0.0)
    return torch.where(whole.unsqueeze(-1), partials.dense.float(), (outputs * shares).sum(0))


MOST_SPLITS = 128
"""The most splits that `launch_attention_combine` takes."""

_THREADS = 256
# So many for a processor keep its loads under way; more would wait for one another.
_THREADS_WANTED = 2048


def attention_combine_reference(
    partials: AttentionPartials, *, rotated: bool, dense: bool = True, tiles: bool = False
) -> Activations:
    """The attention's output (tokens, heads * head_size) as dense values, int8 tiles, or both.

    Heads that were `rotated` (of quantised values, see `hadamard`) are rotated back. Dense values
    have the type of `partials.dense`; int8 values are quantised from the sum in float32, and from
    `dense` for rows that were not split.
    """
    whole = combine_partials_reference(partials)
    rows = (hadamard_reference(whole) if rotated else whole).flatten(1)
    kept = rows.to(partials.dense.dtype) if dense else None
    return Activations(rows.shape[1], kept, quantize_q8_reference(rows) if tiles else None)


def launch_attention_combine(
    library: KernelLibrary,
    partials: AttentionPartials,
    *,
    rotated: bool,
    dense: bool = True,
    tiles: bool = False,
) -> Activations:
    """`attention_combine_reference` in one launch; see csrc/attention_combine.cuh.

    Its sums are in another order than the reference's; the int8 values are bit for bit those of the
    sums. Dense values are left in `partials.dense`. Raises `ValueError` if shapes do not fit.
    """
    _check(partials, tiles)
    tokens, heads, size = partials.dense.shape
    found = Activations(
        heads * size,
        partials.dense.view(tokens, -1) if dense else None,
        q8_tiles(tokens, heads * size, partials.dense.device) if tiles else None,
    )
    if tokens and (partials.log_sums is not None or rotated or tiles):
        _launch(library, partials, found, rotated=rotated)
    return found


def _launch(
    library: KernelLibrary, partials: AttentionPartials, found: Activations, *, rotated: bool
) -> None:
    tokens, heads, size = partials.dense.shape
    bundle = 1 if found.tiles is None else GROUP // math.gcd(size, GROUP)
    quads = bundle * size // 4
    wanted = library.num_sms * _THREADS_WANTED // (tokens * heads * size // 4)
    slices = max(1, min(partials.splits, _THREADS // quads, wanted))
    arguments = [
        pointer(partials.outputs),
        pointer(partials.log_sums),
        pointer(partials.dense),
        pointer(found.tiles),
        *(c_int(n) for n in (partials.splits, heads, size, bundle, slices)),
        c_int(ELEMENT_TYPES[partials.dense.dtype]),
        c_int(rotated),
        c_int(found.dense is not None),
    ]
    library.launch(
        "attention_combine.cuh",
        "attention_combine",
        (tokens, heads // bundle, 1),
        (-(-slices * quads // 32) * 32, 1, 1),
        arguments,
    )


def _check(partials: AttentionPartials, tiles: bool) -> None:
    _, heads, size = shape = tuple(partials.dense.shape)
    if size % 8 or size > 2 * _THREADS or not partials.dense.is_contiguous():
        raise ValueError(f"Heads of {size} elements cannot be put together.")
    if tiles and heads * size % GROUP:
        raise ValueError(f"{heads} heads of {size} elements are not whole groups of {GROUP}.")
    outputs, log_sums = partials.outputs, partials.log_sums
    if outputs is None or log_sums is None:
        return
    if not 0 < len(log_sums) <= MOST_SPLITS or log_sums.shape[1:] != shape[:2]:
        raise ValueError(f"Sums {tuple(log_sums.shape)} do not fit heads {shape}.")
    if outputs.shape != (*log_sums.shape, size):
        raise ValueError(f"Parts {tuple(outputs.shape)} do not fit heads {shape}.")
    if not (outputs.is_contiguous() and log_sums.is_contiguous()):
        raise ValueError("Parts have to lie one after the other.")
