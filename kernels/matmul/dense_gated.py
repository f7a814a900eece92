"""Gate and up projections with 16-bit weights for up to sixteen rows: csrc/dense_gated.cuh."""

from __future__ import annotations

from ctypes import c_int
from typing import NamedTuple

import torch

from ..elementwise.gate_quantize import GATES
from ..elementwise.gated_activation import GateActivation
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .dense_gemv import DENSE_NAMES, can_multiply_dense

_ROWS, _WARPS = 8, 4
# With fewer warps on an SM, loads do not saturate memory.
_WARPS_WANTED = 16


class DenseGate(NamedTuple):
    """Two matrices of one shape, the activation between them, and biases (rows,) float32."""

    gate: torch.Tensor
    up: torch.Tensor
    activation: GateActivation
    gate_bias: torch.Tensor | None = None
    up_bias: torch.Tensor | None = None


class DenseGated:
    """`activation(gate(x)) * up(x)`, with the kernels of `library`."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def multiply(
        self, layer: DenseGate, x: torch.Tensor, out: torch.Tensor, *, split: int | None = None
    ) -> torch.Tensor:
        """Write the results for `x` to `out` (columns, rows), contiguous and of any dtype.

        `split` warps, 1 or 4, share rows. Raises `ValueError` if `can_gate_dense` is false or
        shapes do not fit.
        """
        if not can_gate_dense(layer.gate, layer.up, x):
            raise ValueError(f"Matrices {layer.gate.shape} and {layer.up.shape} have no kernel.")
        (rows, inputs), columns = layer.gate.shape, len(x)
        if out.shape != (columns, rows) or not out.is_contiguous():
            raise ValueError(f"{columns} by {rows} results do not fit {tuple(out.shape)}.")
        few = rows < _WARPS_WANTED * _ROWS * self._library.num_sms
        chosen = split or (4 if few else 1)
        kernel = f"dense_gated_{DENSE_NAMES[x.dtype]}_c{8 if columns <= 8 else 16}_s{chosen}"
        tensors = layer.gate, layer.up, x, layer.gate_bias, layer.up_bias, out
        numbers = rows, inputs, columns, ELEMENT_TYPES[out.dtype], GATES[layer.activation]
        arguments = *map(pointer, tensors), *map(c_int, numbers)
        grid = (-(-rows * chosen // (_ROWS * _WARPS)), 1, 1)
        self._library.launch("dense_gated.cuh", kernel, grid, (32 * _WARPS, 1, 1), arguments)
        return out


def can_gate_dense(gate: torch.Tensor, up: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether there is a kernel for both matrices: see `DenseGemv.multiply`."""
    same = gate.shape == up.shape
    return same and can_multiply_dense(gate, x) and can_multiply_dense(up, x)
