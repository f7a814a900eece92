"""The transformer that all encoders of pictures share: patches in, their rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch.nn import functional

from ..errors import UnsupportedModel
from .vision_config import VisionConfig
from .vision_weights import VisionWeights

_COLOURS = 3
_ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}
Turns = tuple[torch.Tensor, torch.Tensor]
"""Cosine and sine (patches, head_size / 2) of RoPE."""
Segments = Sequence[torch.Tensor]
"""Which patches attend to each other: in each tensor (segments, length), those of a row."""


class VisionTower:
    """Embeds patches and computes the layers, with a norm before or behind them if there is one.

    The residual stream is fp32. Each layer is computed within `turn`, so that another thread can
    compute between two.
    """

    def __init__(self, config: VisionConfig, weights: VisionWeights) -> None:
        if config.activation not in _ACTIVATIONS:
            raise UnsupportedModel(
                f"The picture encoder has the activation {config.activation!r}, which ingle "
                "does not know."
            )
        self.config = config
        self.turn: AbstractContextManager[object] = nullcontext()
        width, epsilon = config.hidden_size, config.norm_epsilon
        side = config.image_size // config.patch_size
        self._embedding = weights.patches(width, _COLOURS * config.patch_size**2)
        self._bias = weights.optional("v.patch_embd.bias", width)
        self._positions = weights.optional("v.position_embd.weight", side * side, width)
        self._norms = [
            weights.norm(name, width, epsilon) if weights.has(f"{name}.weight") else None
            for name in ("v.pre_ln", "v.post_ln")
        ]
        self._blocks = [_VisionBlock(layer, config, weights) for layer in range(config.num_layers)]

    def embed(self, pixels: torch.Tensor) -> torch.Tensor:
        """Embeddings (patches, width) of pixels (3, height, width), row by row.

        Where positions are learned, the picture must be a square of `image_size`.
        """
        size = self.config.patch_size
        patches = pixels.unfold(1, size, size).unfold(2, size, size)
        rows = patches.permute(1, 2, 0, 3, 4).flatten(0, 1).flatten(1).to(self._embedding)
        found = functional.linear(rows, self._embedding).float()
        for added in (self._bias, self._positions):
            found = found if added is None else found + added
        return found

    def __call__(
        self,
        rows: torch.Tensor,
        turns: Turns | None = None,
        segments: Callable[[int], Segments | None] = lambda layer: None,
    ) -> torch.Tensor:
        """The rows (patches, width) after all layers; those of a layer attend in its `segments`."""
        before, behind = self._norms
        rows = rows if before is None else before(rows)
        for layer, block in enumerate(self._blocks):
            with self.turn:
                rows = block(rows, turns, segments(layer))
        return rows if behind is None else behind(rows)


class _VisionBlock:
    """A layer: attention and an MLP, each behind a norm."""

    def __init__(self, layer: int, config: VisionConfig, weights: VisionWeights) -> None:
        width, feed = config.hidden_size, config.intermediate_size
        name, epsilon = f"v.blk.{layer}", config.norm_epsilon
        self._heads = config.num_heads
        self._norm1 = weights.norm(f"{name}.ln1", width, epsilon)
        self._norm2 = weights.norm(f"{name}.ln2", width, epsilon)
        if weights.has(f"{name}.attn_qkv.weight"):
            self._projections = [weights.linear(f"{name}.attn_qkv", 3 * width, width)]
        else:
            parts = (f"{name}.attn_{part}" for part in "qkv")
            self._projections = [weights.linear(part, width, width) for part in parts]
        self._output = weights.linear(f"{name}.attn_out", width, width)
        self._gate = None
        if weights.has(f"{name}.ffn_gate.weight"):
            self._gate = weights.linear(f"{name}.ffn_gate", feed, width)
        self._up = weights.linear(f"{name}.ffn_up", feed, width)
        self._down = weights.linear(f"{name}.ffn_down", width, feed)
        self._activation = _ACTIVATIONS[config.activation]
        self._dtype = weights.dtype

    def __call__(
        self, rows: torch.Tensor, turns: Turns | None, segments: Segments | None
    ) -> torch.Tensor:
        x = self._norm1(rows)
        found = torch.cat([each(x) for each in self._projections], -1)
        query, key, value = found.view(len(rows), 3, self._heads, -1).unbind(1)
        if turns is not None:
            query, key = _turned(query, turns), _turned(key, turns)
        heads = [each.to(self._dtype) for each in (query, key, value)]
        rows = rows + self._output(_attend(heads, segments).flatten(1))
        x = self._norm2(rows)
        if self._gate is None:
            return rows + self._down(self._activation(self._up(x)))
        return rows + self._down(self._activation(self._gate(x)) * self._up(x))


def _attend(heads: Sequence[torch.Tensor], segments: Segments | None) -> torch.Tensor:
    """Attention of (patches, heads, size), within segments if there are some."""
    if segments is None:
        query, key, value = (each.transpose(0, 1)[None] for each in heads)
        return functional.scaled_dot_product_attention(query, key, value)[0].transpose(0, 1)
    mixed = torch.empty_like(heads[0])
    for rows in segments:
        query, key, value = (each[rows].transpose(1, 2) for each in heads)
        found = functional.scaled_dot_product_attention(query, key, value)
        mixed[rows] = found.transpose(1, 2)
    return mixed


def _turned(heads: torch.Tensor, turns: Turns) -> torch.Tensor:
    """RoPE of (patches, heads, size), with pairs half a head apart."""
    cosine, sine = (each[:, None] for each in turns)
    first, second = heads.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
