"""The hyper-parameters of a decoder-only transformer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Activation(StrEnum):
    """The activation of the gated MLP."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """RoPE of one kind of layer: the first `size` elements of a head rotate.

    Every context extension is expressed by divisors of the `size / 2` frequencies `theta ** (-2i /
    size)`, here `factors` (empty: none); if a model is used for more than `original_context`
    positions, `long_factors` replace them (LongRoPE). `attention_factor` scales cosine and sine.
    """

    theta: float
    size: int
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    original_context: int = 0
    attention_factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """The settings that may differ between layers.

    A query sees the `window` last tokens, itself included (None: all); `rope` is None for a layer
    without RoPE.
    """

    window: int | None = None
    rope: RopeConfig | None = None


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The hyper-parameters of a model; `architecture` is GGUF's name of its family.

    `context` is the number of positions that the model is used for: as many as it was trained for,
    unless fewer are requested. Scales multiply what their name says; soft caps bound values by `cap
    * tanh(x / cap)`.
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
        """The number of blocks."""
        return len(self.layers)
