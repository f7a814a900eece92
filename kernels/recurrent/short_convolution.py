"""A gated short convolution between its projections, in plain torch and in one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import c_int

import torch

from ..elementwise.activations import ActivationForms, Activations, q8_tiles
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .causal_convolution import (
    CONVOLUTION_SOURCE,
    Convolution,
    causal_convolution_reference,
)
from .pooled_states import PooledStates, States, advance_rows, checked_steps, differences
from .recurrent_shapes import ShortConvShape

ShortConvolution = Callable[[torch.Tensor, Convolution, PooledStates], Activations]
"""`after * convolution(before * x)`, (tokens, channels).

`before`, `after` and `x` are the thirds of rows (tokens, 3 * channels). The states are inputs
(rows, channels, kernel - 1).
"""
_LANES = 32


def advance_short_convolution(
    convolution: Convolution, inputs: States, states: States
) -> tuple[torch.Tensor, States]:
    """`after * convolution(before * x)` fp32, and the state after it; see `Advance`."""
    (thirds,), (state,) = inputs, states
    before, after, x = thirds.float().chunk(3, -1)
    found, state = causal_convolution_reference(before * x, state, *convolution)
    return after * found, (state,)


class ShortConvolutionKernel:
    """Launches the kernel of `library`."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def __call__(
        self,
        thirds: torch.Tensor,
        shape: ShortConvShape,
        convolution: Convolution,
        rows: PooledStates,
        wanted: ActivationForms,
    ) -> Activations:
        """See `ShortConvolution`; raises `ValueError` if shapes do not fit."""
        _check(thirds, shape, convolution, rows)
        tokens, channels, steps = len(thirds), shape.channels, rows.steps
        dense = None
        if wanted.dense is not None:
            dense = thirds.new_empty(tokens, channels, dtype=wanted.dense)
        tiles = q8_tiles(tokens, channels, thirds.device) if wanted.tiles else None
        arguments = (
            *map(pointer, (thirds, *convolution, *rows.states, *steps, dense, tiles)),
            *map(c_int, (thirds.stride(0), ELEMENT_TYPES[thirds.dtype])),
            *map(c_int, (0 if dense is None else ELEMENT_TYPES[dense.dtype], channels, tokens)),
        )
        grid = (channels // (4 * _LANES), len(steps.reads), 1)
        block = (_LANES, 1, 1)
        self._library.launch(CONVOLUTION_SOURCE, "convolve_gated", grid, block, arguments)
        return Activations(channels, dense, tiles)


def _check(
    thirds: torch.Tensor, shape: ShortConvShape, convolution: Convolution, rows: PooledStates
) -> None:
    if not shape.has_kernels:
        raise ValueError(f"There are no kernels for {shape}.")
    fits = convolution.fits(shape.channels, shape.kernel) and rows.fit(shape.state_shapes)
    fits &= thirds.shape[1:] == (3 * shape.channels,) and thirds.stride(1) == 1
    fits &= not thirds.stride(0) % 4 and not thirds.data_ptr() % (4 * thirds.element_size())
    if not fits:
        raise ValueError(f"Inputs, weights or states do not fit {shape}.")


def short_convolution_failures(
    kernel: ShortConvolutionKernel, shape: ShortConvShape, device: torch.device
) -> Iterator[str]:
    """What the kernel computes otherwise than plain torch; waits for the device."""
    random = torch.Generator(device).manual_seed(1)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, device=device, generator=random)

    tokens, pool, steps = checked_steps(device)
    thirds = normal(tokens, 3 * shape.channels)
    convolution = Convolution(normal(shape.channels, shape.kernel), normal(shape.channels))
    states = tuple(normal(pool, *each) for each in shape.state_shapes)
    expected = PooledStates(tuple(part.clone() for part in states), steps)

    def advance(inputs: States, before: States) -> tuple[torch.Tensor, States]:
        return advance_short_convolution(convolution, inputs, before)

    right = advance_rows((thirds,), expected, advance)
    wanted = ActivationForms(torch.float32)
    found = kernel(thirds, shape, convolution, PooledStates(states, steps), wanted).dense
    assert found is not None
    yield from differences(
        "short convolution",
        ("The output", "The state"),
        (found, *states),
        (right, *expected.states),
    )
