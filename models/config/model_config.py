"""The numbers that shape a decoder-only transformer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Activation(StrEnum):
    """What gates the feed-forward part."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """Rotary position embedding of one kind of layer: the first `size` elements of a head rotate.

    Every way to stretch a context comes down to divisors of the `size / 2` frequencies
    `theta ** (-2i / size)`, here `factors` (empty: none); where a model is used for more than
    `original_context` positions, `long_factors` take their place if there are any (LongRoPE).
    `attention_factor` scales cosine and sine.
    """

    theta: float
    size: int
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    original_context: int = 0
    attention_factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """What may differ from layer to layer.

    A query sees the `window` last tokens, itself included (None: all); without `rope` the layer
    knows no positions.
    """

    window: int | None = None
    rope: RopeConfig | None = None


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """One model's shape; `architecture` is GGUF's name of its family.

    `context` counts the positions that the model is used for: as many as it was trained for,
    unless whoever runs it replaces them by fewer. Scales are factors of what their name says; soft
    caps bound values by `cap * tanh(x / cap)`.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    context: int
    norm_epsilon: float
    layers: tuple[LayerConfig, ...]
    activation: Activation = Activation.SILU
    attention_scale: float
    attention_soft_cap: float | None = None
    final_soft_cap: float | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    tied_embeddings: bool = False

    @property
    def num_layers(self) -> int:
        """Transformer blocks."""
        return len(self.layers)
