"""Gate and up projections of quantised weights for up to eight rows: csrc/gated_gemv.cuh."""

from __future__ import annotations

from ctypes import c_int

import torch

from ..elementwise.activations import GROUP, ActivationForms, Activations, q8_tiles
from ..elementwise.gated_activation import GATES
from ..formats.weight import RepackedTensor
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .linear import GatedLayer
from .quantized_gemv import check_tiles

MOST_OUTPUTS = 1 << 18
_WARPS = 4


class GatedGemv:
    """`activation(gate(x)) * up(x)` for matrices of one format, with the kernels of `library`.

    Launches share counters of this object on `device`, so those of two streams must not overlap.
    """

    def __init__(self, library: KernelLibrary, device: torch.device | None = None) -> None:
        self._library = library
        # Every launch resets them to zero.
        self._counts = torch.zeros(MOST_OUTPUTS // GROUP, dtype=torch.int32, device=device)

    def multiply(
        self,
        layer: GatedLayer[RepackedTensor],
        tiles: torch.Tensor,
        wanted: ActivationForms,
        *,
        split: int = 1,
    ) -> Activations:
        """The results (columns, rows) for quantised activations `tiles`.

        `split` warps share a row of both matrices. Raises `ValueError` if shapes do not fit or
        `can_fuse` is false.
        """
        gate, up = layer.gate, layer.up
        (rows, inputs), columns = gate.shape, tiles.shape[1]
        if up.shape != gate.shape or not can_fuse(gate, up):
            raise ValueError(f"A gate {gate.shape} has no partner {up.shape}.")
        check_tiles(tiles, inputs)
        if rows > MOST_OUTPUTS or (wanted.tiles and rows % GROUP):
            raise ValueError(f"{rows} outputs cannot be quantised.")
        dense = None if wanted.dense is None else tiles.new_empty(columns, rows, dtype=wanted.dense)
        results = q8_tiles(columns, rows, tiles.device) if wanted.tiles else None
        values = None if results is None else tiles.new_empty(columns, rows, dtype=torch.float32)
        biases = layer.gate_bias, layer.up_bias
        tensors = gate.data, up.data, tiles, *biases, dense, results, values, self._counts
        dense_type = 0 if dense is None else ELEMENT_TYPES[dense.dtype]
        numbers = rows, inputs, gate.data.shape[1], dense_type, GATES[layer.activation]
        tables = *gate.tables, *up.tables
        arguments = (
            *map(pointer, tensors),
            *map(c_int, numbers),
            *map(pointer, tables),
            *map(c_int, gate.numbers),
        )
        name = gate.format.kernel
        kernel, grid = f"{name}_gated_c{columns}_s{split}", (-(-rows * split // _WARPS), 1, 1)
        block = (32 * _WARPS, 1, 1)
        self._library.launch(f"gated_{name}.cuh", kernel, grid, block, arguments)
        return Activations(rows, dense, results)


def can_fuse(gate: RepackedTensor, up: RepackedTensor) -> bool:
    """Whether one kernel multiplies by both."""
    in_order = gate.order is None and up.order is None
    return gate.type == up.type and in_order and gate.format.has_gated_kernel
