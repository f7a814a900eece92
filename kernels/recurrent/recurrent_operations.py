"""Recurrent layers on rows of states: none in plain torch, else by kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from ..elementwise.activations import ActivationForms, Activations
from ..launch.kernel_library import KernelLibrary
from .causal_convolution import Convolution
from .delta_net import DeltaNet, DeltaNetInput, DeltaNetWeights
from .delta_net_kernels import DeltaNetKernels, delta_net_failures
from .pooled_states import PooledStates
from .recurrent_shapes import DeltaNetShape, ShortConvShape, StateSpaceShape
from .short_convolution import (
    ShortConvolution,
    ShortConvolutionKernel,
    short_convolution_failures,
)
from .state_space_kernels import StateSpaceKernels, state_space_failures
from .state_space_layer import StateSpaceInput, StateSpaceLayer, StateSpaceWeights


class RecurrentOperations:
    """What computes the recurrent layers of each shape; None where only plain torch does."""

    def delta_net(self, shape: DeltaNetShape) -> DeltaNet | None:
        """What computes gated DeltaNets."""
        del shape
        return None

    def state_space(self, shape: StateSpaceShape) -> StateSpaceLayer | None:
        """What computes state spaces of Mamba-2."""
        del shape
        return None

    def short_convolution(self, shape: ShortConvShape) -> ShortConvolution | None:
        """What computes gated short convolutions."""
        del shape
        return None


class RecurrentKernels(RecurrentOperations):
    """See `RecurrentOperations`; remembers the shapes that it was asked for."""

    def __init__(self, library: KernelLibrary, wanted: Callable[[int], ActivationForms]) -> None:
        """`wanted` says in which forms the model's layers read so many rows."""
        self._delta_nets = DeltaNetKernels(library)
        self._state_spaces = StateSpaceKernels(library)
        self._convolution = ShortConvolutionKernel(library)
        self._wanted = wanted
        self._shapes: dict[DeltaNetShape | StateSpaceShape | ShortConvShape, None] = {}

    def failures(self, device: torch.device) -> Iterator[str]:
        """What is computed otherwise than in plain torch, for these shapes."""
        for shape in self._shapes:
            if isinstance(shape, DeltaNetShape):
                yield from delta_net_failures(self._delta_nets, shape, device)
            elif isinstance(shape, StateSpaceShape):
                yield from state_space_failures(self._state_spaces, shape, device)
            else:
                yield from short_convolution_failures(self._convolution, shape, device)

    def delta_net(self, shape: DeltaNetShape) -> DeltaNet | None:
        """See `RecurrentOperations`."""
        return partial(self._advance_delta_net, shape) if self._knows(shape) else None

    def state_space(self, shape: StateSpaceShape) -> StateSpaceLayer | None:
        """See `RecurrentOperations`."""
        return partial(self._advance_state_space, shape) if self._knows(shape) else None

    def short_convolution(self, shape: ShortConvShape) -> ShortConvolution | None:
        """See `RecurrentOperations`."""
        return partial(self._convolve, shape) if self._knows(shape) else None

    def _knows(self, shape: DeltaNetShape | StateSpaceShape | ShortConvShape) -> bool:
        if shape.has_kernels:
            self._shapes[shape] = None
        return shape.has_kernels

    def _advance_delta_net(
        self, shape: DeltaNetShape, x: DeltaNetInput, weights: DeltaNetWeights, rows: PooledStates
    ) -> Activations:
        return self._delta_nets(x, shape, weights, rows, self._wanted(len(x.mixed)))

    def _advance_state_space(
        self,
        shape: StateSpaceShape,
        x: StateSpaceInput,
        weights: StateSpaceWeights,
        rows: PooledStates,
    ) -> Activations:
        return self._state_spaces(x, shape, weights, rows, self._wanted(len(x.mixed)))

    def _convolve(
        self,
        shape: ShortConvShape,
        thirds: torch.Tensor,
        convolution: Convolution,
        rows: PooledStates,
    ) -> Activations:
        return self._convolution(thirds, shape, convolution, rows, self._wanted(len(thirds)))
