"""A state space of Mamba-2 between its projections, in three launches: see csrc/state_space.cuh."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_float, c_int

import torch

from ..elementwise.activations import ActivationForms, Activations, q8_tiles
from ..elementwise.rms_norm import Norm, norm_block
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .causal_convolution import Convolution, launch_convolve_silu
from .pooled_states import PooledStates, States, advance_rows, checked_steps, differences
from .recurrent_shapes import StateSpaceShape
from .state_space_layer import (
    StateSpaceInput,
    StateSpaceWeights,
    advance_state_space,
    gated_group_norm,
)

_SOURCE = "state_space.cuh"
_THREADS, _COLUMNS = 128, 32
"""Of a block of the recurrence: threads, and elements of a head."""


class StateSpaceKernels:
    """Launches the kernels of `library`."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def __call__(
        self,
        x: StateSpaceInput,
        shape: StateSpaceShape,
        weights: StateSpaceWeights,
        rows: PooledStates,
        wanted: ActivationForms,
    ) -> Activations:
        """See `StateSpaceLayer`; raises `ValueError` if shapes do not fit."""
        _check(x, shape, weights, rows)
        tokens, device, steps = len(x.mixed), x.mixed.device, rows.steps
        mixed = launch_convolve_silu(
            self._library, x.mixed, weights.convolution, rows.states[0], steps
        )
        found = torch.empty(tokens, shape.width, dtype=torch.float32, device=device)
        arguments = (
            *map(pointer, (mixed, x.steps, weights.decay, weights.bias, weights.skip)),
            *map(pointer, (rows.states[1], *steps, found)),
            *map(c_int, (shape.heads, shape.head_size, shape.groups, x.steps.stride(0))),
        )
        kernel = f"state_space_{shape.state_size}"
        grid = (-(-shape.head_size // _COLUMNS), shape.heads, len(steps.reads))
        self._library.launch(_SOURCE, kernel, grid, (_THREADS, 1, 1), arguments)
        dense = None if wanted.dense is None else found.new_empty(found.shape, dtype=wanted.dense)
        tiles = q8_tiles(tokens, shape.width, device) if wanted.tiles else None
        numbers = (
            *(x.gate.stride(0), 0 if dense is None else ELEMENT_TYPES[dense.dtype]),
            shape.group_width,
        )
        threads, vectors = norm_block(shape.group_width)
        self._library.launch(
            _SOURCE,
            f"norm_groups_v{vectors}",
            (tokens, shape.groups, 1),
            (threads, 1, 1),
            (
                *map(pointer, (found, x.gate, weights.norm.weight, dense, tiles)),
                *map(c_int, numbers),
                c_float(weights.norm.epsilon),
            ),
        )
        return Activations(shape.width, dense, tiles)


def _check(
    x: StateSpaceInput, shape: StateSpaceShape, weights: StateSpaceWeights, rows: PooledStates
) -> None:
    if not shape.has_kernels:
        raise ValueError(f"There are no kernels for {shape}.")
    tokens, heads = len(x.mixed), shape.heads
    sizes = (tokens, shape.width), (tokens, shape.channels), (tokens, heads)
    whole = (
        (weights.decay, (heads,)),
        (weights.bias, (heads,)),
        (weights.skip, (heads,)),
        (weights.norm.weight, (shape.width,)),
    )
    fits = weights.convolution.fits(shape.channels, shape.kernel) and rows.fit(shape.state_shapes)
    fits &= all(
        part.shape == size and part.stride(1) == 1 for part, size in zip(x, sizes, strict=True)
    )
    fits &= all(each.shape == size and each.is_contiguous() for each, size in whole)
    fits &= all(each.dtype == torch.float32 for each in (*x, *(each for each, _ in whole)))
    fits &= not x.gate.stride(0) % 4 and not x.gate.data_ptr() % 16
    if not fits:
        raise ValueError(f"Inputs, weights or states do not fit {shape}.")


def state_space_layer_reference(
    x: StateSpaceInput, shape: StateSpaceShape, weights: StateSpaceWeights, rows: PooledStates
) -> torch.Tensor:
    """See `StateSpaceKernels`: fp32, in plain torch, which waits for the device."""

    def advance(some: States, states: States) -> tuple[torch.Tensor, States]:
        return advance_state_space(shape, weights, some, states)

    found = advance_rows((x.mixed, x.steps), rows, advance).flatten(1)
    return gated_group_norm(found, x.gate, shape, weights.norm)


def state_space_failures(
    kernels: StateSpaceKernels, shape: StateSpaceShape, device: torch.device
) -> Iterator[str]:
    """What kernels compute otherwise than plain torch; waits for the device."""
    random = torch.Generator(device).manual_seed(1)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, device=device, generator=random)

    tokens, pool, steps = checked_steps(device)
    heads = shape.heads
    x = StateSpaceInput.of(normal(tokens, shape.width + shape.channels + heads), shape)
    weights = StateSpaceWeights(
        Convolution(normal(shape.channels, shape.kernel), normal(shape.channels)),
        -normal(heads).abs(),
        normal(heads),
        normal(heads),
        Norm(normal(shape.width), 1e-5),
    )
    states = tuple(normal(pool, *each) for each in shape.state_shapes)
    expected = PooledStates(tuple(part.clone() for part in states), steps)
    right = state_space_layer_reference(x, shape, weights, expected)
    found = kernels(x, shape, weights, PooledStates(states, steps), ActivationForms(torch.float32))
    assert found.dense is not None
    yield from differences(
        "state space",
        ("The output", "The convolution's state", "The state"),
        (found.dense, *states),
        (right, *expected.states),
    )
