"""Seed-OSS: Llama with biases on queries, keys and values."""

from __future__ import annotations

from .family import Family, HFModelType

FAMILY = Family(
    name="seed_oss",
    gguf_layer_names={"post_attention_norm": "ffn_norm"},
    hf_types=(
        HFModelType(
            name="seed_oss",
            context=524288,
            vocab_size=155136,
            heads=80,
            kv_heads=8,
            head_size=128,
        ),
    ),
)
