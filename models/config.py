"""The numbers that shape a decoder-only transformer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RopeScaling(StrEnum):
    """How rotary frequencies are stretched beyond the trained context."""

    NONE = "none"
    LINEAR = "linear"
    LLAMA3 = "llama3"
    YARN = "yarn"
    LONGROPE = "longrope"


class Activation(StrEnum):
    """What gates the feed-forward part."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """Rotary position embedding of one kind of layer.

    `size` elements of each head rotate. `factors` divide each frequency (`llama3`, `longrope`);
    `attention_factor` scales cosine and sine (`yarn`, `longrope`).
    """

    theta: float
    size: int
    scaling: RopeScaling = RopeScaling.NONE
    factor: float = 1.0
    original_context: int = 0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
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

    Scales are factors of what their name says; soft caps bound values by `cap * tanh(x / cap)`.
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
