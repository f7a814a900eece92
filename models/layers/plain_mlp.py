"""The MLP of a layer without gates: the squares of what is positive, projected up and back."""

from __future__ import annotations

from ingle.kernels.elementwise.activations import Activations

from ..config.model_config import ModelConfig
from .parameters import Parameters


class PlainMLP:
    """`relu(up(x)) ** 2`, which the layer `down` projects back."""

    def __init__(self, name: str, width: int, config: ModelConfig, parameters: Parameters) -> None:
        """`name` is that of the two tensors, with `{}` for `up` and `down`."""
        hidden = config.hidden_size
        self._operations = parameters.operations
        self._up = parameters.linear(name.format("up"), width, hidden)
        self.down = parameters.linear(name.format("down"), hidden, width)

    def __call__(self, x: Activations) -> Activations:
        """The input of `down`, (tokens, width)."""
        (rows,) = self._operations.linear(x, self._up)
        return self._operations.squared_relu(rows)
