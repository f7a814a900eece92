"""A convolution over the last few tokens, each channel by itself, with its inputs as the state."""

from __future__ import annotations

from ctypes import c_int
from typing import NamedTuple

import torch

from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .pooled_states import StepRows

CONVOLUTION_SOURCE = "causal_convolution.cuh"
_THREADS = 128


class Convolution(NamedTuple):
    """`weight` (channels, kernel) fp32 with the token itself last, `bias` (channels,) fp32."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None

    def fits(self, channels: int, kernel: int) -> bool:
        """Whether it has this shape, as kernels need it."""
        of_bias = self.bias is None or self.bias.shape == (channels,)
        whole = all(part is None or part.is_contiguous() for part in self)
        floats = all(part is None or part.dtype == torch.float32 for part in self)
        return self.weight.shape == (channels, kernel) and of_bias and whole and floats


def causal_convolution_reference(
    x: torch.Tensor, state: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs (batch, tokens, channels) fp32, and the state after the last token.

    `x` is (batch, tokens, channels), `weight` and `bias` are those of a `Convolution`,
    `state` (batch, channels, kernel - 1) fp32 the inputs before, the oldest first. The sum over a
    token's inputs has the same order however tokens are divided into calls.
    """
    tokens, kernel = x.shape[1], weight.shape[1]
    inputs = torch.cat((state, x.float().transpose(1, 2)), 2)
    output = inputs[..., :tokens] * weight[:, :1]
    for tap in range(1, kernel):
        output = output + inputs[..., tap : tap + tokens] * weight[:, tap : tap + 1]
    if bias is not None:
        output = output + bias[:, None]
    return output.transpose(1, 2), inputs[..., tokens:]


def launch_convolve_silu(
    library: KernelLibrary,
    x: torch.Tensor,
    convolution: Convolution,
    states: torch.Tensor,
    steps: StepRows,
) -> torch.Tensor:
    """SiLU of the convolution of `x` (tokens, channels), in fp32: csrc/causal_convolution.cuh.

    `x` may be a slice of wider rows; `states` are (rows, channels, kernel - 1).
    """
    tokens, channels = x.shape
    out = torch.empty(tokens, channels, dtype=torch.float32, device=x.device)
    arguments = (
        *map(pointer, (x, *convolution, states, *steps, out)),
        *map(c_int, (x.stride(0), ELEMENT_TYPES[x.dtype], channels)),
    )
    grid = (channels // _THREADS, len(steps.reads), 1)
    library.launch(CONVOLUTION_SOURCE, "convolve_silu", grid, (_THREADS, 1, 1), arguments)
    return out
