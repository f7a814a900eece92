"""RMS norm, in plain torch, and fused with a residual addition and int8 quantisation."""

from __future__ import annotations

from ctypes import c_float, c_int
from typing import NamedTuple

import torch

from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .activations import GROUP, ActivationForms, Activations, q8_tiles


class Norm(NamedTuple):
    """An RMS norm: its weight (size,) float32 and its epsilon."""

    weight: torch.Tensor
    epsilon: float


def rms_norm_reference(
    rows: torch.Tensor, weight: torch.Tensor, epsilon: float, dtype: torch.dtype
) -> torch.Tensor:
    """`weight * rows / sqrt(mean(rows ** 2) + epsilon)` of rows (..., size), computed in fp32."""
    exact = rows.float()
    scale = torch.rsqrt(exact.square().mean(-1, keepdim=True) + epsilon)
    return (exact * scale * weight.float()).to(dtype)


MOST_SIZE = 16384
_SOURCE = "rms_norm.cuh"
# The largest size for which a thread takes so many vectors of four elements.
_VARIANTS = ((2048, 1), (4096, 2), (MOST_SIZE, 4))


def norm_block(size: int) -> tuple[int, int]:
    """The threads of a row's block, and the vectors of four elements that each of them takes."""
    vectors = next(each for most, each in _VARIANTS if size <= most)
    return -(-size // (128 * vectors)) * 32, vectors


class NormQuantize:
    """Normalises rows of at most 16384 elements, with the kernels of csrc/rms_norm.cuh.

    The int8 values are quantised from the float32 results, before these are rounded to a dense
    type.
    """

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def rms_norm(
        self, rows: torch.Tensor, weight: torch.Tensor, epsilon: float, wanted: ActivationForms
    ) -> Activations:
        """RMS norm of rows (tokens, size) of any float type, times `weight` (size,) float32.

        Rows may be slices of wider ones. Raises `ValueError` if shapes do not fit.
        """
        return self.add_rms_norm(rows, None, None, weight, epsilon, wanted)

    def rms_norm_add(
        self, residual: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, epsilon: float
    ) -> None:
        """Add normalised `rows` of any float type to `residual` (tokens, size) float32."""
        self.add_rms_norm(residual, rows, weight, None, epsilon, ActivationForms())

    def add_rms_norm(
        self,
        rows: torch.Tensor,
        addend: torch.Tensor | None,
        addend_weight: torch.Tensor | None,
        weight: torch.Tensor | None,
        epsilon: float,
        wanted: ActivationForms,
    ) -> Activations:
        """`rms_norm_add`, then `rms_norm` of the residual stream, in one launch.

        Without `addend_weight` the addend is added as it is; without `addend` or `weight` that part
        is left out.
        """
        tokens, size = rows.shape
        _check(rows, addend, (weight, addend_weight), wanted)
        dense = None if wanted.dense is None else rows.new_empty(tokens, size, dtype=wanted.dense)
        tiles = q8_tiles(tokens, size, rows.device) if wanted.tiles else None
        added = rows if addend is None else addend
        numbers = (
            *(rows.stride(0), ELEMENT_TYPES[rows.dtype]),
            *(added.stride(0), ELEMENT_TYPES[added.dtype]),
            *(0 if dense is None else ELEMENT_TYPES[dense.dtype], size),
        )
        tensors = rows, weight, addend, addend_weight, dense, tiles
        arguments = *map(pointer, tensors), *map(c_int, numbers), c_float(epsilon)
        threads, vectors = norm_block(size)
        kernel, grid = f"rms_norm_v{vectors}", (tokens, 1, 1)
        self._library.launch(_SOURCE, kernel, grid, (threads, 1, 1), arguments)
        return Activations(size, dense, tiles)


def _check(
    rows: torch.Tensor,
    addend: torch.Tensor | None,
    weights: tuple[torch.Tensor | None, ...],
    wanted: ActivationForms,
) -> None:
    size = rows.shape[1]
    if not 0 < size <= MOST_SIZE or size % (GROUP if wanted.tiles else 4):
        raise ValueError(f"Rows of {size} elements cannot be normalised.")
    for each in (rows,) if addend is None else (rows, addend):
        whole = each.shape == rows.shape and each.stride(1) == 1 and not each.stride(0) % 4
        if not whole or each.data_ptr() % (4 * each.element_size()):
            raise ValueError(f"{tuple(each.shape)} rows of strides {each.stride()} do not fit.")
    if addend is not None and rows.dtype != torch.float32:
        raise ValueError(f"A residual stream is float32, not {rows.dtype}.")
    for weight in weights:
        fits = weight is None or (weight.shape == (size,) and weight.is_contiguous())
        if weight is not None and (not fits or weight.dtype != torch.float32):
            raise ValueError(f"{tuple(weight.shape)} {weight.dtype} is no weight of {size}.")
