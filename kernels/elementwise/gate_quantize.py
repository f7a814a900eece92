"""An activation times a second projection, as numbers and as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_int
from types import MappingProxyType

import torch

from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .activations import Activations
from .gated_activation import GateActivation
from .norm_quantize import ActivationForms
from .q8_activations import GROUP, q8_tiles

GATES: Mapping[GateActivation, int] = MappingProxyType({"silu": 0, "gelu_tanh": 1})
"""As csrc/gate.cuh numbers them."""


class GateQuantize:
    """Gates rows, with the kernel of csrc/gated_activation.cuh in `library`.

    Bytes are those of the float32 results, before numbers are rounded to a type.
    """

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def __call__(
        self,
        gate: torch.Tensor,
        up: torch.Tensor,
        activation: GateActivation,
        wanted: ActivationForms,
    ) -> Activations:
        """`activation(gate) * up` of rows (tokens, size) of one float type.

        Both may be parts of wider rows, as the halves of one tensor are. Raises `ValueError`
        where shapes do not fit.
        """
        tokens, size = gate.shape
        _check(gate, up, wanted)
        dense = None if wanted.dense is None else gate.new_empty(tokens, size, dtype=wanted.dense)
        tiles = q8_tiles(tokens, size, gate.device) if wanted.tiles else None
        numbers = (
            *(gate.stride(0), up.stride(0), ELEMENT_TYPES[gate.dtype]),
            *(0 if dense is None else ELEMENT_TYPES[dense.dtype], size, GATES[activation]),
        )
        arguments = *map(pointer, (gate, up, dense, tiles)), *map(c_int, numbers)
        grid = (tokens, -(-size // 512), 1)
        name = "gated_activation"
        self._library.launch(f"{name}.cuh", name, grid, (128, 1, 1), arguments)
        return Activations(size, dense, tiles)


def _check(gate: torch.Tensor, up: torch.Tensor, wanted: ActivationForms) -> None:
    if gate.shape != up.shape or gate.dtype != up.dtype:
        raise ValueError(
            f"{tuple(up.shape)} {up.dtype} is no partner of {tuple(gate.shape)} {gate.dtype}."
        )
    if gate.shape[1] % (GROUP if wanted.tiles else 4):
        raise ValueError(f"Rows of {gate.shape[1]} elements cannot be gated.")
    for each in (gate, up):
        if each.stride(1) != 1 or each.stride(0) % 4 or each.data_ptr() % (4 * each.element_size()):
            raise ValueError(f"Rows of strides {each.stride()} are not aligned.")
