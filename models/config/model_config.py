"""The hyper-parameters of a decoder-only transformer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .recurrent_config import RecurrentConfig, state_elements

_FLOAT = 4


class Activation(StrEnum):
    """The activation of the MLP, which has gates unless it is `RELU_SQUARED`."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"
    CLAMPED_SILU = "clamped_silu"
    RELU_SQUARED = "relu_squared"


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """RoPE of one kind of layer: the first `size` elements of a head rotate.

    Every context extension is expressed by divisors of the `size / 2` frequencies `theta ** (-2i /
    size)`, here `factors` (empty: none); if a model is used for more than `original_context`
    positions, `long_factors` replace them (LongRoPE). `attention_factor` scales cosine and sine.
    Queries at position p are scaled by `1 + temperature * log(1 + p // original_context)`.
    """

    theta: float
    size: int
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    original_context: int = 0
    attention_factor: float = 1.0
    temperature: float = 0.0


class ExpertScores(StrEnum):
    """How a router makes scores of its logits."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


@dataclass(frozen=True, kw_only=True)
class ExpertConfig:
    """The experts of a layer: gated MLPs with `width` units, of which each token takes `used`.

    Those with the highest scores are taken, out of the `groups_used` best of `groups` equal groups.
    Their scores, divided by their sum if `normalized`, times `scale` are the weights of the sum of
    their outputs. An MLP of `shared_width` units is added for every token (0: none), weighted by a
    gate of its own if `shared_gate`.
    """

    count: int
    used: int
    width: int
    scores: ExpertScores = ExpertScores.SOFTMAX
    normalized: bool = True
    scale: float = 1.0
    groups: int = 1
    groups_used: int = 1
    shared_width: int = 0
    shared_gate: bool = False


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """The settings that may differ between layers.

    A query sees the `window` last tokens, itself included (None: all); `rope` is None for a layer
    without RoPE, `experts` for one with a single MLP, `recurrent` for one with attention. Some
    layers have nothing but an MLP, or none.
    """

    window: int | None = None
    rope: RopeConfig | None = None
    experts: ExpertConfig | None = None
    recurrent: RecurrentConfig | None = None
    has_mixer: bool = True
    has_mlp: bool = True

    @property
    def has_attention(self) -> bool:
        """Whether the layer has keys and values."""
        return self.has_mixer and self.recurrent is None


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The hyper-parameters of a model; `architecture` is GGUF's name of its family.

    `context` is the number of positions that the model is used for: as many as it was trained for,
    unless fewer are requested. With `gated_attention` the projection of queries has a gate for each
    of them, behind the elements of its head. Scales multiply what their name says; soft caps bound
    values by `cap * tanh(x / cap)`.
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
    attention_sinks: bool = False
    gated_attention: bool = False
    final_soft_cap: float | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    tied_embeddings: bool = False

    @property
    def num_layers(self) -> int:
        """The number of blocks."""
        return len(self.layers)

    @property
    def is_mixture(self) -> bool:
        """Whether any layer has experts."""
        return any(layer.experts is not None for layer in self.layers)

    @property
    def attention_layers(self) -> tuple[int, ...]:
        """The indices of the layers that have keys and values."""
        return tuple(i for i, layer in enumerate(self.layers) if layer.has_attention)

    @property
    def state_bytes(self) -> int:
        """Bytes of the states that the recurrent layers keep of a sequence; 0 if there are none."""
        states = (layer.recurrent for layer in self.layers)
        return _FLOAT * sum(state_elements(state) for state in states if state is not None)

    @property
    def mlp_elements(self) -> int:
        """The most values that the MLP of a layer holds of a token at a time."""
        return max(map(self._mlp_elements, self.layers))

    def _mlp_elements(self, layer: LayerConfig) -> int:
        if layer.experts is None:
            return 3 * self.intermediate_size
        width = layer.experts.width + layer.experts.shared_width
        return 2 * layer.experts.used * self.hidden_size + 3 * width
