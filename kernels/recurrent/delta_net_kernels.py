"""A gated DeltaNet between its projections, in three launches: see csrc/gated_delta.cuh."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_float, c_int

import torch
from torch.nn.functional import silu

from ..elementwise.activations import ActivationForms, Activations, q8_tiles
from ..elementwise.rms_norm import Norm, rms_norm_reference
from ..launch.cuda_driver import Argument, Grid
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary
from .causal_convolution import Convolution, launch_convolve_silu
from .delta_net import DeltaNetInput, DeltaNetWeights, advance_delta_net, delta_gates
from .pooled_states import PooledStates, States, advance_rows, checked_steps, differences
from .recurrent_shapes import DELTA_HEAD, DeltaNetShape

_SOURCE = "gated_delta.cuh"
_THREADS = 128
_COLUMNS, _HEADS = 32, 4
"""Elements of a value that a block of the recurrence has; heads that one of the norm has."""


class DeltaNetKernels:
    """Launches the kernels of `library`."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def __call__(
        self,
        x: DeltaNetInput,
        shape: DeltaNetShape,
        weights: DeltaNetWeights,
        rows: PooledStates,
        wanted: ActivationForms,
    ) -> Activations:
        """See `DeltaNet`; raises `ValueError` if shapes do not fit."""
        _check(x, shape, weights, rows)
        tokens, device = len(x.mixed), x.mixed.device
        sequences, steps = len(rows.steps.reads), [pointer(part) for part in rows.steps]
        mixed = launch_convolve_silu(
            self._library, x.mixed, weights.convolution, rows.states[0], rows.steps
        )
        found = torch.empty(tokens, shape.value_width, dtype=torch.float32, device=device)
        share = shape.value_heads // shape.key_heads
        if x.steps is None:
            rate_steps, places = x.rates[:, share:], (share, 2 * share)
        else:
            rate_steps, places = x.steps, (shape.value_heads, 0)
        self._launch(
            "gated_delta",
            (DELTA_HEAD // _COLUMNS, shape.value_heads, sequences),
            *map(pointer, (mixed, x.rates, rate_steps, weights.decay, weights.bias)),
            *(pointer(rows.states[1]), *steps, pointer(found)),
            *map(c_int, (shape.key_heads, shape.value_heads, shape.takes_turns)),
            *map(c_int, (x.rates.stride(0), *places)),
        )
        dense = None if wanted.dense is None else found.new_empty(found.shape, dtype=wanted.dense)
        tiles = q8_tiles(tokens, shape.value_width, device) if wanted.tiles else None
        self._launch(
            "gate_heads",
            (tokens, -(-shape.value_heads // _HEADS), 1),
            *map(pointer, (found, x.gate, weights.norm.weight, dense, tiles)),
            *map(c_int, (x.gate.stride(0), ELEMENT_TYPES[x.gate.dtype])),
            *map(c_int, (0 if dense is None else ELEMENT_TYPES[dense.dtype], shape.value_heads)),
            c_float(weights.norm.epsilon),
        )
        return Activations(shape.value_width, dense, tiles)

    def _launch(self, kernel: str, grid: Grid, *arguments: Argument) -> None:
        self._library.launch(_SOURCE, kernel, grid, (_THREADS, 1, 1), arguments)


def _check(
    x: DeltaNetInput, shape: DeltaNetShape, weights: DeltaNetWeights, rows: PooledStates
) -> None:
    heads, tokens = shape.value_heads, len(x.mixed)
    if not shape.has_kernels:
        raise ValueError(f"There are no kernels for {shape}.")
    rates = (tokens, 2 * heads if x.steps is None else heads)
    strided = (
        (x.mixed, (tokens, shape.channels)),
        (x.gate, (tokens, shape.value_width)),
        (x.rates, rates),
        (x.rates if x.steps is None else x.steps, rates),
    )
    whole = (
        (weights.decay, (heads,)),
        (weights.bias, (heads,)),
        (weights.norm.weight, (DELTA_HEAD,)),
    )
    fits = weights.convolution.fits(shape.channels, shape.kernel) and rows.fit(shape.state_shapes)
    fits &= all(each.shape == size and each.stride(1) == 1 for each, size in strided)
    fits &= all(each.shape == size and each.is_contiguous() for each, size in whole)
    fits &= strided[2][0].stride() == strided[3][0].stride()
    fits &= all(each.dtype == torch.float32 for each, _ in (*strided[2:], *whole))
    fits &= not x.gate.stride(0) % 4 and not x.gate.data_ptr() % (4 * x.gate.element_size())
    if not fits:
        raise ValueError(f"Inputs, weights or states do not fit {shape}.")


def delta_net_reference(
    x: DeltaNetInput, shape: DeltaNetShape, weights: DeltaNetWeights, rows: PooledStates
) -> torch.Tensor:
    """See `DeltaNetKernels`: fp32, in plain torch, which waits for the device."""
    inputs = x.mixed, *delta_gates(x, shape, weights)

    def advance(some: States, states: States) -> tuple[torch.Tensor, States]:
        return advance_delta_net(shape, weights, some, states)

    output = advance_rows(inputs, rows, advance).flatten(1)
    heads = output.view(-1, shape.value_size)
    normed = rms_norm_reference(heads, *weights.norm, torch.float32).view_as(output)
    return normed * silu(x.gate.float())


def delta_net_failures(
    kernels: DeltaNetKernels, shape: DeltaNetShape, device: torch.device
) -> Iterator[str]:
    """What kernels compute otherwise than plain torch; waits for the device."""
    random = torch.Generator(device).manual_seed(1)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, device=device, generator=random)

    tokens, pool, steps = checked_steps(device)
    heads = shape.value_heads
    both = normal(tokens, shape.channels + shape.value_width)
    x = DeltaNetInput(
        both[:, : shape.channels],
        both[:, shape.channels :],
        normal(tokens, heads),
        normal(tokens, heads),
    )
    weights = DeltaNetWeights(
        Convolution(normal(shape.channels, shape.kernel)),
        -normal(heads).abs(),
        normal(heads),
        Norm(normal(shape.value_size), 1e-6),
    )
    states = tuple(normal(pool, *each) for each in shape.state_shapes)
    expected = PooledStates(tuple(part.clone() for part in states), steps)
    right = delta_net_reference(x, shape, weights, expected)
    found = kernels(x, shape, weights, PooledStates(states, steps), ActivationForms(torch.float32))
    assert found.dense is not None
    yield from differences(
        "DeltaNet",
        ("The output", "The convolution's state", "The state"),
        (found.dense, *states),
        (right, *expected.states),
    )
