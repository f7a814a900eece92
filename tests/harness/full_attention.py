"""Reference attention over one whole sequence, without a KV cache."""

from __future__ import annotations

import torch

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.attention.paged_attention_reference import norm_rope_reference
from ingle.kernels.elementwise.activations import Activations
from ingle.models.config.model_config import ModelConfig
from ingle.models.layers.state_context import Advance, States

# Queries scored at a time, so that memory grows linearly with the sequence.
_QUERIES = 256


class FullAttention:
    """An `AttentionContext` for a step that holds a sequence from its first token to its last."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        """Compute causal attention (tokens, heads * head_size) in fp32."""
        config = self._config
        query, *own = norm_rope_reference(x)
        if not own[1].shape[1]:  # values are parts of the keys
            own[1] = own[0][..., -own[1].shape[2] :]
        source = config.layers[layer].kv_layer
        key, value = self._kept[layer] = (own[0], own[1]) if source is None else self._kept[source]
        output = full_attention(
            query,
            key,
            value,
            scale=config.attention_scale,
            window=config.layers[layer].window,
            soft_cap=config.attention_soft_cap,
            sinks=x.sinks,
        )
        return Activations(output.shape[1] * output.shape[2], output.flatten(1))

    def scan(self, layer: int, inputs: States, advance: Advance) -> torch.Tensor:
        """Advance empty states by the whole sequence."""
        recurrent = self._config.layers[layer].recurrent
        assert recurrent is not None
        empty = tuple(torch.zeros(1, *shape) for shape in recurrent.state_shapes)
        return advance(tuple(part[None] for part in inputs), empty)[0][0]


def full_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return (tokens, heads, size) of `query`; `key` and `value` are (tokens, kv_heads, size).

    A query attends to itself and to tokens before it, `window` tokens at most.
    """
    tokens, heads, size = query.shape
    kv_heads = key.shape[1]
    grouped = query.float().view(tokens, kv_heads, heads // kv_heads, size) * scale
    keys, values = key.float(), value.float()
    places = torch.arange(tokens, device=query.device)
    parts: list[torch.Tensor] = []
    for start in range(0, tokens, _QUERIES):
        rows = grouped[start : start + _QUERIES]
        scores = torch.einsum("qkgd,tkd->kgqt", rows, keys)
        if soft_cap is not None:
            scores = torch.tanh(scores / soft_cap) * soft_cap
        behind = places[start : start + _QUERIES, None] - places[None, :]
        hidden = behind < 0 if window is None else (behind < 0) | (behind >= window)
        scores = scores.masked_fill(hidden, -torch.inf)
        if sinks is not None:
            each = sinks.view(kv_heads, -1, 1, 1).expand(-1, -1, len(rows), 1)
            scores = torch.cat((scores, each), -1)
        weights = scores.softmax(-1)[..., :tokens]
        parts.append(torch.einsum("kgqt,tkd->qkgd", weights, values))
    return torch.cat(parts).reshape(tokens, heads, -1).to(query.dtype)
