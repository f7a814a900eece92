"""The gated activation of an MLP: SiLU or GELU of one projection times another."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_int
from typing import Literal

import torch
from torch.nn import functional

from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .activations import GROUP, ActivationForms, Activations, q8_tiles

GateActivation = Literal["silu", "gelu_tanh", "clamped_silu", "relu"]
"""The third is gpt-oss's; in MLPs without gates the last gates its own input."""
_STEEPNESS, _LIMIT = 1.702, 7.0


def gated_activation_reference(
    gate: torch.Tensor, up: torch.Tensor, activation: GateActivation
) -> torch.Tensor:
    """`activation(gate) * up`, both (tokens, width), in fp32; returned in the type of `gate`."""
    exact = gate.float()
    if activation == "clamped_silu":
        exact, linear = exact.clamp(max=_LIMIT), up.float().clamp(-_LIMIT, _LIMIT)
        active = exact * torch.sigmoid(exact * _STEEPNESS)
        return (active * (linear + 1)).to(gate.dtype)
    if activation == "silu":
        active = functional.silu(exact)
    elif activation == "relu":
        active = exact.relu()
    else:
        active = functional.gelu(exact, approximate="tanh")
    return (active * up.float()).to(gate.dtype)


GATES: Mapping[GateActivation, int] = {"silu": 0, "gelu_tanh": 1, "clamped_silu": 2}
"""The numbers of the activations in csrc/gate.cuh."""
ROW_GATES: Mapping[GateActivation, int] = {**GATES, "relu": 4}
"""The numbers of those in csrc/gated_activation.cuh."""
_SIGMOID = 3


def launch_gated_activation(
    library: KernelLibrary,
    gate: torch.Tensor,
    up: torch.Tensor,
    activation: GateActivation,
    wanted: ActivationForms,
) -> Activations:
    """`activation(gate) * up` of rows (tokens, size) of one float type: csrc/gated_activation.cuh.

    Both may be slices of wider rows, such as the halves of one tensor. The int8 values are
    quantised from the float32 results, before these are rounded to a dense type. Raises
    `ValueError` if shapes do not fit.
    """
    return _launch(library, gate, up, ROW_GATES[activation], wanted)


def launch_sigmoid_gate(
    library: KernelLibrary, gate: torch.Tensor, rows: torch.Tensor, wanted: ActivationForms
) -> Activations:
    """`sigmoid(gate) * rows`; see `launch_gated_activation`."""
    return _launch(library, gate, rows, _SIGMOID, wanted)


def _launch(
    library: KernelLibrary,
    gate: torch.Tensor,
    up: torch.Tensor,
    number: int,
    wanted: ActivationForms,
) -> Activations:
    tokens, size = gate.shape
    _check(gate, up, wanted)
    dense = None if wanted.dense is None else gate.new_empty(tokens, size, dtype=wanted.dense)
    tiles = q8_tiles(tokens, size, gate.device) if wanted.tiles else None
    numbers = (
        *(gate.stride(0), up.stride(0), ELEMENT_TYPES[gate.dtype]),
        *(0 if dense is None else ELEMENT_TYPES[dense.dtype], size, number),
    )
    arguments = *map(pointer, (gate, up, dense, tiles)), *map(c_int, numbers)
    grid = (tokens, -(-size // 512), 1)
    name = "gated_activation"
    library.launch(f"{name}.cuh", name, grid, (128, 1, 1), arguments)
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
