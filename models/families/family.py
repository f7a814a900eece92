"""The description of a model family: how its files are read, and what its blocks are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig

HF_LAYER_NAMES: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""GGUF's name of each part of a layer, by its name in transformers."""
HF_LATENT_NAMES: Mapping[str, str] = {
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
}
"""The same for what latent attention has besides."""
HF_EXPERT_NAMES: Mapping[str, str] = {
    **HF_LAYER_NAMES,
    **dict.fromkeys(
        ("mlp.gate", "block_sparse_moe.gate", "block_sparse_moe.router", "mlp.router"),
        "ffn_gate_inp",
    ),
    "block_sparse_moe.router.layer": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    **{
        f"mlp.{shared}.{their}_proj": f"ffn_{their}_shexp"
        for shared in ("shared_expert", "shared_experts")
        for their in ("gate", "up", "down")
    },
}
"""The same for families with experts; the experts themselves have names of their own."""
HF_LAYER_NAMES_WITH_POST_NORMS: Mapping[str, str] = {
    **HF_LAYER_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
"""The same for families that normalise the output of attention and of the MLP."""


class NormPlacement(Enum):
    """Where a block applies its RMS norms, around attention and around the MLP alike."""

    BEFORE = "before"
    AFTER = "after"
    BOTH = "both"


class QueryKeyNorm(Enum):
    """What is normalised of queries and keys between projection and RoPE, or after RoPE."""

    NOTHING = "nothing"
    EACH_HEAD = "each head"
    EACH_HEAD_IF_ANY = "each head, if the file has norms for it"
    EACH_HEAD_ROTATED = "each head, after RoPE"
    ALL_HEADS = "all heads together"
    EACH_HEAD_AND_VALUES = "each head, and values without weights; keys where a file has no values"


ConfigReader = Callable[[ConfigFields, ModelConfig], ModelConfig]
"""Returns the configuration with what the family's own settings change in it."""


class StoredRows(NamedTuple):
    """Rows of a stored tensor with `total` of them, in their order; of these, maybe some columns.

    None stands for all, as they are stored.
    """

    rows: Sequence[int] | None = None
    total: int = 0
    columns: Sequence[int] | None = None


HFParts = Callable[[str, ModelConfig], Mapping[str, StoredRows] | None]
"""What a tensor of a layer becomes, both without the layer's name; None for the usual rules."""


def no_parts(_part: str, _config: ModelConfig) -> None:
    """The `hf_parts` of a family whose files have no tensors of their own kind."""


GGUFValue = float | Sequence[int]
"""A value in the header of a GGUF file."""


def unchanged(_fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The `ConfigReader` of a family without settings of its own."""
    return config


def no_keys(_config: ModelConfig) -> Mapping[str, GGUFValue]:
    """The `gguf_keys` of a family with the keys that all have."""
    return {}


@dataclass(frozen=True, kw_only=True)
class HFModelType:
    """A `model_type` of config.json, with the defaults that transformers has for it.

    A file of one of the `multimodal_types` holds the settings of this one under `text_config`.
    """

    name: str
    read: ConfigReader = unchanged
    multimodal_types: tuple[str, ...] = ()
    context: int = 2048
    epsilon: float = 1e-6
    epsilon_key: str = "rms_norm_eps"
    theta: float = 10000.0
    activation: str = "silu"
    tied: bool = False
    vocab_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_size: int | None = None
    rotated_share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model family that ingle's own engine runs; `name` is GGUF's `general.architecture`."""

    name: str
    hf_types: tuple[HFModelType, ...]
    other_names: tuple[str, ...] = ()
    """Architectures of GGUF files that the family reads as well."""
    read_gguf: ConfigReader = unchanged
    norm_placement: NormPlacement = NormPlacement.BEFORE
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NOTHING
    hf_layer_names: Mapping[str, str] = field(default_factory=lambda: HF_LAYER_NAMES)
    hf_norm_offset: float = 0.0
    """What is added to the norm weights of safetensors files; GGUF files have it added."""
    hf_interleaves_heads: bool = False
    """Safetensors files alternate the rows of the two halves that RoPE rotates, in each head."""
    has_states: bool = False
    """Layers may be recurrent: files list zero key heads for these."""
    has_experts: bool = False
    """Layers may be mixtures of experts: a header with a number of experts is none of another."""
    has_layer_shapes: bool = False
    """Layers may differ in their key heads and in the width of their MLPs."""
    has_latents: bool = False
    """Attention is latent: headers state keys and values of sizes of their own."""
    has_streams: bool = False
    """Layers have several residual streams."""
    has_draft_layers: bool = False
    """Files may hold layers behind the last one that predict later tokens; they are left out."""
    has_mtp_head: bool = False
    """The first of these layers drafts as `MTPHead` does."""
    hf_parts: HFParts = no_parts
    hf_alternates_gates: bool = False
    """Safetensors files hold the matrices of experts transposed, with gates and ups alternating."""
    gguf_layer_names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Our name of each part of a layer that GGUF files of the family call otherwise."""
    gguf_output_norm: str = "output_norm"
    """What GGUF files of the family call the norm behind the last layer."""
    gguf_keys: Callable[[ModelConfig], Mapping[str, GGUFValue]] = no_keys
    """Further keys of the family's GGUF headers, for a file to be written."""
    gguf_interleaves_heads: bool = False
    """GGUF files alternate the rows of the two halves that RoPE rotates, in each Q and K head."""
    gguf_fuses_attention: bool = False
    """GGUF files store Q, K and V as one tensor."""
    gguf_fuses_gate: bool = False
    """GGUF files store `ffn_gate` and `ffn_up` as one tensor."""

    @property
    def has_kernels(self) -> bool:
        """Whether there are kernels for all layers, if states and latents have usual sizes."""
        return not self.has_streams
