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
    Positions in pictures have as many axes as there are `sections` (M-RoPE), each of which turns so
    many pairs of elements, one axis after the other.
    """

    theta: float
    size: int
    factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    original_context: int = 0
    attention_factor: float = 1.0
    temperature: float = 0.0
    sections: tuple[int, ...] = ()


class ExpertScores(StrEnum):
    """How a router makes scores of its logits."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"


@dataclass(frozen=True, kw_only=True)
class ExpertConfig:
    """The experts of a layer: MLPs with `width` units, of which each token takes `used`.

    Those with the highest scores are taken, out of the `groups_used` best of `groups` equal groups.
    Their scores, divided by their sum if `normalized`, times `scale` are the weights of the sum of
    their outputs. An MLP of `shared_width` units is added for every token (0: none), weighted by a
    gate of its own if `shared_gate`. Their inputs and outputs are projected to `latent` elements
    and back (0: they are not).
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
    latent: int = 0


@dataclass(frozen=True, kw_only=True)
class KVHeads:
    """The key heads of a layer, as many as value heads; `size` is that of its queries, too.

    With `inner_values` there are no values beside the keys: so many elements at the end of a key
    are its value.
    """

    count: int
    size: int
    inner_values: int = 0

    @property
    def planes(self) -> int:
        """Heads that are stored for each of `count`: a key and a value, or both in one."""
        return 1 if self.inner_values else 2


@dataclass(frozen=True, kw_only=True)
class LatentConfig:
    """Latent attention (MLA): keys and values are products of `rank` elements of a token.

    Each head makes `key_size` elements of a key and `value_size` of a value of them; `rope_size`
    rotated elements of keys are the same for all heads. Queries are made of `query_rank` elements
    (0: of the token itself). Norms of these elements have the `norm_epsilon`.
    """

    rank: int
    query_rank: int
    key_size: int
    value_size: int
    rope_size: int
    norm_epsilon: float


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """The settings that may differ between layers.

    A query sees the `window` last tokens, itself included (None: all); `rope` is None for a layer
    without RoPE, `experts` for one with a single MLP, `recurrent` for one with attention. Some
    layers have nothing but an MLP, or none.

    `kv_heads` and `mlp_width` are None where they are the model's. With `kv_layer` the layer has no
    keys and values of its own, but reads those of that earlier one. `sparsity` is how many standard
    deviations above the mean of a token's gates one must be to open at all. With `parallel_experts`
    there is an MLP beside the experts, each with norms of its own. Attention reads `inputs`
    elements of a token (None: the hidden size).
    """

    window: int | None = None
    rope: RopeConfig | None = None
    experts: ExpertConfig | None = None
    recurrent: RecurrentConfig | None = None
    has_mixer: bool = True
    has_mlp: bool = True
    kv_heads: KVHeads | None = None
    kv_layer: int | None = None
    mlp_width: int | None = None
    sparsity: float | None = None
    parallel_experts: bool = False
    inputs: int | None = None

    @property
    def has_attention(self) -> bool:
        """Whether the layer has queries."""
        return self.has_mixer and self.recurrent is None

    @property
    def has_keys(self) -> bool:
        """Whether the layer has keys and values of its own."""
        return self.has_attention and self.kv_layer is None


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """Several residual streams (AltUp): layers compute the `active` one and predict the others.

    Attention has a linear layer of rank `laurel_rank` beside it.
    """

    count: int
    active: int
    laurel_rank: int
    scales_active: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The hyper-parameters of a model; `architecture` is GGUF's name of its family.

    `context` is the number of positions that the model is used for: as many as it was trained for,
    unless fewer are requested. With `gated_attention` the projection of queries has a gate for each
    of them, behind the elements of its head. With `latent`, all query heads share one key: the
    elements that rotate, then those that keys and values are made of. Each layer has an input of
    `layer_input_width` elements for every token (0: none). Scales multiply what their name says;
    soft caps bound values by `cap * tanh(x / cap)`.
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
    latent: LatentConfig | None = None
    final_soft_cap: float | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    tied_embeddings: bool = False
    layer_input_width: int = 0
    streams: StreamConfig | None = None

    @property
    def num_layers(self) -> int:
        """The number of blocks."""
        return len(self.layers)

    @property
    def is_mixture(self) -> bool:
        """Whether any layer has experts."""
        return any(layer.experts is not None for layer in self.layers)

    @property
    def key_layers(self) -> tuple[int, ...]:
        """The indices of the layers that have keys and values of their own."""
        return tuple(i for i, layer in enumerate(self.layers) if layer.has_keys)

    def kv_heads_of(self, layer: int) -> KVHeads:
        """The key heads that the queries of a layer attend to."""
        own = self.layers[layer].kv_heads
        inner = 0 if self.latent is None else self.latent.rank
        return own or KVHeads(count=self.num_kv_heads, size=self.head_size, inner_values=inner)

    @property
    def key_heads(self) -> tuple[KVHeads, ...]:
        """The key heads of each layer that has any of its own."""
        return tuple(map(self.kv_heads_of, self.key_layers))

    def mlp_width_of(self, layer: int) -> int:
        """The units of the MLP of a layer, experts aside."""
        return self.layers[layer].mlp_width or self.intermediate_size

    @property
    def state_bytes(self) -> int:
        """Bytes of the states that the recurrent layers keep of a sequence; 0 if there are none."""
        states = (layer.recurrent for layer in self.layers)
        return _FLOAT * sum(state_elements(state) for state in states if state is not None)

    @property
    def step_elements(self) -> int:
        """The most values that a step holds of a token at a time, attention aside."""
        streams = 0 if self.streams is None else 3 * self.streams.count
        inputs = 3 * self.num_layers * self.layer_input_width
        queries = 0 if self.latent is None else 5 * self.num_heads * self.head_size
        return (6 + streams) * self.hidden_size + self._widest_mlp + inputs + queries

    @property
    def _widest_mlp(self) -> int:
        return max(map(self._mlp_elements, self.layers))

    def _mlp_elements(self, layer: LayerConfig) -> int:
        single = 3 * (layer.mlp_width or self.intermediate_size)
        if layer.experts is None:
            return single
        width = layer.experts.width + layer.experts.shared_width
        return (
            single * layer.parallel_experts + 2 * layer.experts.used * self.hidden_size + 3 * width
        )
