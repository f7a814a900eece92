"""Hunyuan without experts: Llama with norms on each head of queries and keys, after RoPE."""

from __future__ import annotations

from .family import HF_LAYER_NAMES, Family, HFModelType, QueryKeyNorm

FAMILY = Family(
    name="hunyuan-dense",
    query_key_norm=QueryKeyNorm.EACH_HEAD_ROTATED,
    hf_layer_names={
        **HF_LAYER_NAMES,
        "self_attn.query_layernorm": "attn_q_norm",
        "self_attn.key_layernorm": "attn_k_norm",
    },
    hf_types=(HFModelType(name="hunyuan_v1_dense", epsilon=1e-5),),
)
