"""Nemotron-H, Nano 2 and 3: each layer is a state space, attention without RoPE, or an MLP.

In place of one MLP there may be experts without gates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ingle.kernels.recurrent.recurrent_shapes import StateSpaceShape

from ...config.config_fields import ConfigFields
from ...config.expert_fields import expert_width, experts_from_gguf, experts_from_hf
from ...config.model_config import (
    Activation,
    ExpertConfig,
    ExpertScores,
    LayerConfig,
    ModelConfig,
)
from ...config.recurrent_fields import layers_without_heads
from ...config.state_space_fields import (
    state_space_from_gguf,
    state_space_from_hf,
    state_space_keys,
)
from ..family import Family, GGUFValue, HFModelType, StoredRows

_LAYER_NAMES = {
    "norm": "attn_norm",
    "mixer.q_proj": "attn_q",
    "mixer.k_proj": "attn_k",
    "mixer.v_proj": "attn_v",
    "mixer.o_proj": "attn_output",
    "mixer.up_proj": "ffn_up",
    "mixer.down_proj": "ffn_down",
    "mixer.in_proj": "ssm_in",
    "mixer.conv1d": "ssm_conv1d",
    "mixer.norm": "ssm_norm",
    "mixer.out_proj": "ssm_out",
    "mixer.gate": "ffn_gate_inp",
    "mixer.shared_experts.up_proj": "ffn_up_shexp",
    "mixer.shared_experts.down_proj": "ffn_down_shexp",
    "mixer.fc1_latent_proj": "ffn_latent_down",
    "mixer.fc2_latent_proj": "ffn_latent_up",
}
_OTHER_PARTS = {
    "mixer.A_log": "ssm_a",
    "mixer.D": "ssm_d",
    "mixer.dt_bias": "ssm_dt.bias",
    "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mixer.experts.up_proj": "ffn_up_exps.weight",
    "mixer.experts.down_proj": "ffn_down_exps.weight",
}
_WITH_EXPERTS = "nemotron_h_moe"
_MOST = 1 << 20
_FIELDS = {
    "heads": "mamba_num_heads",
    "head_size": "mamba_head_dim",
    "groups": "n_groups",
    "state_size": "ssm_state_size",
    "kernel": "conv_kernel",
}
_DEFAULTS = {"heads": 128, "head_size": 64, "groups": 8, "state_size": 128, "kernel": 4}
_KINDS = {
    **dict.fromkeys(("M", "linear_attention", "mamba"), "state space"),
    **dict.fromkeys(("*", "full_attention", "attention"), "attention"),
    **dict.fromkeys(("-", "mlp"), "mlp"),
    **dict.fromkeys(("E", "moe"), "experts"),
}


def _with_kinds(
    config: ModelConfig,
    recurrent: StateSpaceShape,
    kinds: Sequence[str],
    experts: ExpertConfig | None,
) -> ModelConfig:
    layers = {
        "state space": LayerConfig(recurrent=recurrent, has_mlp=False),
        "attention": LayerConfig(has_mlp=False),
        "mlp": LayerConfig(has_mixer=False),
        "experts": LayerConfig(has_mixer=False, experts=experts),
    }
    if experts is not None:
        width = config.intermediate_size if "mlp" in kinds else experts.width
        config = replace(config, intermediate_size=width)
    return replace(
        config,
        activation=Activation.RELU_SQUARED,
        layers=tuple(layers[kind] for kind in kinds),
    )


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    count = config.num_layers
    widths = fields.integers("feed_forward_length", 0, _MOST)
    if not fields.is_list("feed_forward_length"):
        widths *= count
    if len(widths) < count:
        fields.fail("does not say which of its layers are MLPs")
    experts, mlp = None, "mlp"
    if fields.integer("expert_count", 0, 1 << 14, 0):
        scores = ExpertScores.SIGMOID
        experts, mlp = experts_from_gguf(fields, config, scores=scores, normalized=False), "experts"
        experts = replace(
            experts,
            shared_width=fields.integer("expert_shared_feed_forward_length", 0, _MOST, 0),
            latent=fields.integer("moe_latent_size", 0, _MOST, 0),
        )
    headless = layers_without_heads(fields, count)
    kinds = [
        mlp if width else "state space" if no_heads else "attention"
        for width, no_heads in zip(widths[:count], headless, strict=True)
    ]
    return _with_kinds(config, state_space_from_gguf(fields), kinds, experts)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    if fields.text("mlp_hidden_act", "relu2") != "relu2":
        fields.refuse("has another activation than relu2", "Use a GGUF file of the model.")
    recurrent = state_space_from_hf(fields, _FIELDS, _DEFAULTS)
    kinds = _kinds(fields, config.num_layers)
    if "experts" not in kinds:
        return _with_kinds(config, recurrent, kinds, None)
    config = replace(config, architecture=_WITH_EXPERTS)
    return _with_kinds(config, recurrent, kinds, _experts_from_hf(fields))


def _experts_from_hf(fields: ConfigFields) -> ExpertConfig:
    width = expert_width(fields, "moe_intermediate_size", 7688)
    scores = ExpertScores.SIGMOID
    return replace(
        experts_from_hf(fields, width=width, used=2, count=8, scores=scores),
        shared_width=expert_width(fields, "moe_shared_expert_intermediate_size", 7688),
        latent=fields.integer("moe_latent_size", 0, _MOST, 0),
    )


def _kinds(fields: ConfigFields, count: int) -> Sequence[str]:
    key = "hybrid_override_pattern"
    if key in fields:
        names: Sequence[str] = fields.text(key)
    else:
        names = fields.texts("layers_block_type", count)
    if len(names) != count:
        fields.fail(f"describes {len(names)} of {count} layers")
    unknown = next((name for name in names if name not in _KINDS), None)
    if unknown is not None:
        fields.refuse(
            f"has layers of the kind {unknown!r}, which ingle does not know",
            "Use a GGUF file of the model: llama.cpp may run it.",
        )
    return [_KINDS[name] for name in names]


def _hf_parts(part: str, config: ModelConfig) -> Mapping[str, StoredRows] | None:
    del config
    return {_OTHER_PARTS[part]: StoredRows()} if part in _OTHER_PARTS else None


def _gguf_keys(config: ModelConfig) -> Mapping[str, GGUFValue]:
    width = config.intermediate_size
    experts = next((layer.experts for layer in config.layers if layer.experts is not None), None)
    return {
        **state_space_keys(config),
        "feed_forward_length": [width if layer.has_mlp else 0 for layer in config.layers],
        "attention.layer_norm_epsilon": config.norm_epsilon,
        **({"moe_latent_size": experts.latent} if experts is not None and experts.latent else {}),
    }


FAMILY = Family(
    name="nemotron_h",
    other_names=(_WITH_EXPERTS,),
    read_gguf=_read_gguf,
    hf_layer_names=_LAYER_NAMES,
    hf_parts=_hf_parts,
    has_states=True,
    has_experts=True,
    has_draft_layers=True,
    gguf_keys=_gguf_keys,
    hf_types=(
        HFModelType(
            name="nemotron_h",
            read=_read_hf,
            context=4096,
            epsilon=1e-5,
            epsilon_key="layer_norm_epsilon",
            vocab_size=131072,
            heads=32,
            kv_heads=8,
            head_size=128,
        ),
    ),
)
