"""The residual streams of Gemma 3n (AltUp), of which each layer computes one."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ingle.kernels.matmul.linear import LinearLayer

from ..config.model_config import ModelConfig, StreamConfig
from .attention import AttentionContext
from .layer_input import LayerInputGate
from .parameters import Parameters
from .rotary_embedding import RotaryTables

Block = Callable[[torch.Tensor, RotaryTables | None, AttentionContext, torch.Tensor | None], object]
"""Changes a residual stream as `DecoderBlock` does."""
_LEAST_POWER = 1e-5


class ResidualStreams:
    """Makes the streams of an embedding, and one residual stream of them behind the last layer."""

    def __init__(self, model: ModelConfig, config: StreamConfig, parameters: Parameters) -> None:
        self._operations = parameters.operations
        hidden = model.hidden_size
        self._apart, self._together = (
            [parameters.linear(f"{name}.{i}", hidden, hidden) for i in range(config.count - 1)]
            for name in ("altup_proj", "altup_unembd_proj")
        )

    def apart(self, embeddings: torch.Tensor) -> torch.Tensor:
        """(streams, tokens, hidden) fp32 of `embeddings` (tokens, hidden) fp32."""
        others = self._operations.linear(
            self._operations.activations(embeddings), *self._apart, dtype=torch.float32
        )
        return torch.stack((embeddings, *(_as_loud(other, embeddings) for other in others)))

    def together(self, streams: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) fp32 of all streams."""
        found = [streams[0]]
        for stream, layer in zip(streams[1:], self._together, strict=True):
            (rows,) = self._operations.linear(
                self._operations.activations(stream), layer, dtype=torch.float32
            )
            found.append(_as_loud(rows, streams[0]))
        return torch.stack(found).mean(0)


def _as_loud(rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`rows` scaled to the root mean square of `like`."""
    power = rows.square().mean(-1, keepdim=True).clamp(min=_LEAST_POWER)
    return rows * (like.square().mean(-1, keepdim=True) / power).sqrt()


class StreamBlock:
    """Predicts all streams, lets `block` compute the active one, and corrects all by it."""

    def __init__(
        self,
        layer: int,
        config: ModelConfig,
        streams: StreamConfig,
        block: Block,
        parameters: Parameters,
    ) -> None:
        self._streams = streams
        self._block = block
        self._operations = parameters.operations
        name, hidden, count = f"blk.{layer}.altup", config.hidden_size, streams.count
        self._router = parameters.linear(f"{name}_router", count, hidden)
        self._router_norm = parameters.norm(f"{name}_router_norm", hidden, config.norm_epsilon)
        self._prediction = parameters.linear(f"{name}_predict_coef", count * count, count)
        self._correction = parameters.linear(f"{name}_correct_coef", count, count)
        self._scale = parameters.vector(f"{name}_correct_scale.weight", hidden)
        self._gate = LayerInputGate(layer, config, parameters)

    def __call__(
        self,
        streams: torch.Tensor,
        tables: RotaryTables | None,
        context: AttentionContext,
        inputs: torch.Tensor | None,
    ) -> None:
        """Change the streams (streams, tokens, hidden) fp32 in place; `inputs` (tokens, width)."""
        assert inputs is not None
        config, active = self._streams, self._streams.active
        mixed = self._coefficients(streams[active], self._prediction)
        mixed = mixed.view(-1, config.count, config.count)
        streams.add_(torch.einsum("ktd,tsk->std", streams, mixed))
        found = streams[active].clone()
        self._block(found, tables, context, None)
        shares = 1 + self._coefficients(found, self._correction)
        streams.add_((found - streams[active]) * shares.T[..., None])
        seen = streams[active] * self._scale if config.scales_active else streams[active]
        streams[1:].add_(self._gate(seen, inputs))

    def _coefficients(self, rows: torch.Tensor, layer: LinearLayer) -> torch.Tensor:
        """What `layer` makes of the routing of `rows` (tokens, hidden), fp32."""
        operations = self._operations
        (routed,) = operations.linear(self._router_norm(rows), self._router, dtype=torch.float32)
        routed = (routed / rows.shape[-1]).tanh()
        (found,) = operations.linear(operations.activations(routed), layer, dtype=torch.float32)
        return found
