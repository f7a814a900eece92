"""Products added to a residual stream, and its norm, in one launch: csrc/normed_gemv.cuh."""

from __future__ import annotations

from ctypes import c_float, c_int

import torch

from ..elementwise.activations import GROUP, ActivationForms, Activations, q8_tiles
from ..elementwise.rms_norm import MOST_SIZE, Norm, norm_block
from ..formats.weight import PreparedWeight, RepackedTensor
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .epilogue import epilogue_arguments
from .linear import LinearLayer
from .quantized_gemv import GemvVariant, QuantizedGemv, check_tiles

MOST_NORMED_COLUMNS = 2
"""More rows would keep one block busy for longer than a launch takes, by estimate."""


class NormedGemv:
    """Adds products to a residual stream and normalises it, with the kernels of `library`.

    Launches share a counter of this object on `device`, so those of two streams must not overlap.
    """

    def __init__(self, library: KernelLibrary, device: torch.device | None = None) -> None:
        self._library = library
        self._gemv = QuantizedGemv(library)
        self._count = torch.zeros(1, dtype=torch.int32, device=device)  # zero after every launch

    def multiply_add(
        self,
        residual: torch.Tensor,
        tiles: torch.Tensor,
        layer: LinearLayer,
        scale: float,
        norm: Norm,
        wanted: ActivationForms,
        *,
        variant: GemvVariant | None = None,
    ) -> Activations:
        """Add `scale` times the layer's outputs to `residual` (columns, rows); return its norm.

        Raises `ValueError` if shapes do not fit or `can_norm` is false.
        """
        weight, columns = layer.weight, tiles.shape[1]
        if not can_norm(weight, columns) or not isinstance(weight, RepackedTensor):
            raise ValueError(f"{columns} products of {weight.shape} are not normalised.")
        rows, inputs = weight.shape
        check_tiles(tiles, inputs)
        if norm.weight.shape != (rows,) or residual.stride(0) % 4 or residual.data_ptr() % 16:
            raise ValueError(f"{tuple(residual.shape)} sums do not fit the norm.")
        dense = None
        if wanted.dense is not None:
            dense = residual.new_empty(columns, rows, dtype=wanted.dense)
        normed = q8_tiles(columns, rows, residual.device) if wanted.tiles else None
        threads, vectors = norm_block(rows)
        chosen = variant or self._gemv.variant(rows)
        kind = 0 if dense is None else ELEMENT_TYPES[dense.dtype]
        arguments = [
            *map(pointer, (weight.data, tiles)),
            *map(c_int, (rows, inputs, weight.data.shape[1])),
            *epilogue_arguments(residual, columns, rows, layer.bias, scale),
            *map(pointer, (norm.weight, dense, normed, self._count)),
            *map(c_int, (kind, threads, vectors)),
            c_float(norm.epsilon),
        ]
        name = weight.format.kernel
        kernel = f"{name}_normed_c{columns}_s{chosen.split}"
        grid = (-(-rows // chosen.block_rows), 1, 1)
        self._library.launch(f"normed_{name}.cuh", kernel, grid, (128, 1, 1), arguments)
        return Activations(rows, dense, normed)


def can_norm(weight: PreparedWeight, columns: int) -> bool:
    """Whether one kernel adds so many products with these weights, and normalises the sums."""
    if not isinstance(weight, RepackedTensor) or weight.order is not None:
        return False
    rows = weight.shape[0]
    fits = columns <= MOST_NORMED_COLUMNS and rows <= MOST_SIZE and rows % GROUP == 0
    return fits and weight.format.has_normed_kernel
