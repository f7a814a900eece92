"""The gated activation of an MLP: SiLU or GELU of one projection times another."""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn import functional

GateActivation = Literal["silu", "gelu_tanh"]


def gated_activation_reference(
    gate: torch.Tensor, up: torch.Tensor, activation: GateActivation
) -> torch.Tensor:
    """The product, computed in fp32 and returned in the type of `gate`."""
    exact = gate.float()
    if activation == "silu":
        active = functional.silu(exact)
    else:
        active = functional.gelu(exact, approximate="tanh")
    return (active * up.float()).to(gate.dtype)


def gated_activation(
    gate: torch.Tensor, up: torch.Tensor, activation: GateActivation
) -> torch.Tensor:
    """`activation(gate) * up`, both (tokens, width): SwiGLU or, by `gelu_tanh`, GeGLU."""
    return gated_activation_reference(gate, up, activation)
