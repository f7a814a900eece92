"""Gate and up projections of quantised weights for up to eight rows: csrc/gated_gemv.cuh."""

from __future__ import annotations

from ctypes import c_int
from typing import NamedTuple

import torch

from ..elementwise.activations import Activations
from ..elementwise.gate_quantize import GATES, GateQuantize
from ..elementwise.gated_activation import GateActivation
from ..elementwise.norm_quantize import ActivationForms
from ..elementwise.q8_activations import GROUP, q8_tiles
from ..formats.repacked_tensor import RepackedTensor
from ..formats.weight import Repacked, format_of
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .quantized_gemv import MOST_COLUMNS, QuantizedGemv

MOST_OUTPUTS = 1 << 18
_WARPS = 4


class GatedLayer(NamedTuple):
    """Two matrices of one shape, the activation between them, and biases (rows,) float32."""

    gate: Repacked
    up: Repacked
    activation: GateActivation
    gate_bias: torch.Tensor | None = None
    up_bias: torch.Tensor | None = None


class GatedGemv:
    """`activation(gate(x)) * up(x)`, with the kernels of `library`.

    Matrices of one format with a gated kernel take one launch, others three. Launches share
    counters of this object on `device`, so those of two streams must not overlap.
    """

    def __init__(self, library: KernelLibrary, device: torch.device | None = None) -> None:
        self._library = library
        self._products = QuantizedGemv(library)
        self._gate = GateQuantize(library)
        # Every launch resets them to zero.
        self._counts = torch.zeros(MOST_OUTPUTS // GROUP, dtype=torch.int32, device=device)

    def multiply(
        self,
        layer: GatedLayer,
        tiles: torch.Tensor,
        wanted: ActivationForms,
        *,
        split: int = 1,
        exact: bool = False,
    ) -> Activations:
        """The results (columns, rows) for quantised activations `tiles`.

        `split` warps share a row of both matrices, if there are kernels for that. `exact` is for
        NF4, see `QuantizedGemv.multiply`, and takes three launches. Raises `ValueError` if shapes
        do not fit.
        """
        rows, inputs = layer.gate.shape
        columns = tiles.shape[1]
        if layer.up.shape != layer.gate.shape:
            raise ValueError(f"A gate {layer.gate.shape} has no partner {layer.up.shape}.")
        if columns > MOST_COLUMNS or len(tiles) != -(-inputs // 1024):
            raise ValueError(f"{tuple(tiles.shape)} tiles do not fit {inputs} inputs.")
        if rows > MOST_OUTPUTS or (wanted.tiles and rows % GROUP):
            raise ValueError(f"{rows} outputs cannot be quantised.")
        if exact or not can_fuse(layer.gate, layer.up):
            return self._in_three(layer, tiles, wanted, exact=exact)
        dense = None if wanted.dense is None else tiles.new_empty(columns, rows, dtype=wanted.dense)
        results = q8_tiles(columns, rows, tiles.device) if wanted.tiles else None
        self._launch(layer, tiles, dense, results, split)
        return Activations(rows, dense, results)

    def _launch(
        self,
        layer: GatedLayer,
        tiles: torch.Tensor,
        dense: torch.Tensor | None,
        results: torch.Tensor | None,
        split: int,
    ) -> None:
        gate, up = layer.gate, layer.up
        (rows, inputs), columns = gate.shape, tiles.shape[1]
        values = None if results is None else tiles.new_empty(columns, rows, dtype=torch.float32)
        biases = layer.gate_bias, layer.up_bias
        tensors = gate.data, up.data, tiles, *biases, dense, results, values, self._counts
        dense_type = 0 if dense is None else ELEMENT_TYPES[dense.dtype]
        numbers = rows, inputs, gate.data.shape[1], dense_type, GATES[layer.activation]
        name = format_of(gate).kernel
        kernel, grid = f"{name}_gated_c{columns}_s{split}", (-(-rows * split // _WARPS), 1, 1)
        tables = (each for weight in (gate, up) for each in _tables(weight))
        arguments = *map(pointer, tensors), *map(c_int, numbers), *map(pointer, tables)
        block = (32 * _WARPS, 1, 1)
        self._library.launch(f"gated_{name}.cuh", kernel, grid, block, arguments)

    def _in_three(
        self,
        layer: GatedLayer,
        tiles: torch.Tensor,
        wanted: ActivationForms,
        *,
        exact: bool,
    ) -> Activations:
        rows, columns = layer.gate.shape[0], tiles.shape[1]
        both = tiles.new_empty(columns, 2 * rows, dtype=torch.float32)
        halves = both[:, :rows], both[:, rows:]
        weights = (layer.gate, layer.gate_bias), (layer.up, layer.up_bias)
        for (weight, bias), out in zip(weights, halves, strict=True):
            self._products.multiply(weight, tiles, out, bias=bias, exact=exact)
        return self._gate(*halves, layer.activation, wanted)


def can_fuse(gate: Repacked, up: Repacked) -> bool:
    """Whether one kernel multiplies by both."""
    form = format_of(gate)
    return form is format_of(up) and form.has_gated_kernel


def _tables(weight: Repacked) -> tuple[torch.Tensor, ...]:
    if isinstance(weight, RepackedTensor):
        return ()
    return weight.nested.values, weight.nested.absmax, weight.nested.offset
