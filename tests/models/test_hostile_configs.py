"""Hostile `config.json` settings give a config or a clear error, never a crash."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingle.models.errors import ModelError
from ingle.models.families.family_registry import HF_MODEL_TYPES
from ingle.models.families.hf_config import config_from_hf
from ingle.models.layers.rotary_embedding import rotary_frequencies

_TYPES = [*HF_MODEL_TYPES, "gemma3", "bert"]
_SANE: dict[str, object] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
_KEYS = (
    *_SANE,
    *[
        "head_dim",
        "max_position_embeddings",
        "rms_norm_eps",
        "hidden_act",
        "hidden_activation",
        "rope_theta",
        "tie_word_embeddings",
        "partial_rotary_factor",
        "sliding_window",
        "use_sliding_window",
        "layer_types",
        "max_window_layers",
        "original_max_position_embeddings",
        "rope_local_base_freq",
        "text_config",
        "query_pre_attn_scalar",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "logits_scaling",
        "residual_multiplier",
        "attention_multiplier",
        "no_rope_layers",
        "no_rope_layer_interval",
        "sliding_window_pattern",
        "use_bidirectional_attention",
        "global_head_dim",
        "num_global_key_value_heads",
        "attention_k_eq_v",
        "per_layer_config",
        "num_kv_shared_layers",
        "hidden_size_per_layer_input",
        "use_double_wide_mlp",
        "enable_moe_block",
        "top_k_experts",
        "altup_num_inputs",
        "altup_active_idx",
        "activation_sparsity_pattern",
        "num_experts",
        "num_local_experts",
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "n_shared_experts",
        "first_k_dense_replace",
        "decoder_sparse_step",
        "mlp_only_layers",
        "norm_topk_prob",
        "routed_scaling_factor",
        "n_group",
        "topk_group",
        "swiglu_limit",
    ],
)
_ROPE_KEYS = [
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "beta_fast",
    "beta_slow",
    "short_factor",
    "long_factor",
    "truncate",
    "partial_rotary_factor",
    "original_max_position_embeddings",
    "alpha",
    "llama_4_scaling_beta",
    "full_attention",
    "sliding_attention",
]
_KINDS = ["default", "linear", "llama3", "yarn", "longrope", "su", "dynamic", "proportional"]
_NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 2, 8, 64, 10**30, 10**400, 0.5, 1e-300, 1e300, math.nan, math.inf]),
    st.integers(),
    st.floats(),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, st.text(max_size=5), st.sampled_from(_KINDS)),
    lambda inner: st.lists(inner, max_size=9),
    max_leaves=12,
)
_FACTORS = st.lists(_NUMBERS, min_size=8, max_size=8)
_ROPE = st.dictionaries(st.sampled_from(_ROPE_KEYS), st.one_of(_VALUES, _FACTORS), max_size=8)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(_TYPES),
    st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=3),
    st.sampled_from(["rope_scaling", "rope_parameters"]),
    st.one_of(st.none(), _ROPE),
    st.sampled_from(_KINDS),
)
@example("llama", {}, "rope_parameters", {"factor": 1e300, "rope_theta": 1e300}, "llama3")
@example("llama", {"max_position_embeddings": 1}, "rope_scaling", {"factor": 4}, "yarn")
def test_random_settings_give_a_config_or_a_clear_error(
    kind: str,
    changes: dict[str, object],
    key: str,
    stretched: dict[str, object] | None,
    scaling: str,
) -> None:
    values = {**_SANE, "model_type": kind, **changes}
    if stretched is not None:
        values[key] = {"rope_type": scaling, **stretched}
    try:
        config = config_from_hf(values)
    except ModelError as error:
        sentence = error.message
    else:
        for index, layer in enumerate(config.layers):
            heads, rope = config.kv_heads_of(index), layer.rope
            assert config.num_heads % heads.count == 0
            if rope is None:
                continue
            assert rope.size <= heads.size
            assert all(map(math.isfinite, rotary_frequencies(rope, config.context)))
        return
    assert sentence.endswith(".")
    assert len(sentence) < 400
