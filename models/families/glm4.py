"""GLM-4 of 2025 (9B and 32B): four norms a layer, and RoPE on half of each head."""

from __future__ import annotations

from .family import HF_LAYER_NAMES, Family, HFModelType, NormPlacement

FAMILY = Family(
    name="glm4",
    norm_placement=NormPlacement.BOTH,
    hf_layer_names={
        **HF_LAYER_NAMES,
        "post_self_attn_layernorm": "post_attention_norm",
        "post_mlp_layernorm": "post_ffw_norm",
    },
    hf_interleaves_heads=True,
    gguf_interleaves_heads=True,
    gguf_fuses_gate=True,
    hf_types=(
        HFModelType(
            name="glm4",
            context=131072,
            epsilon=1.5625e-07,
            vocab_size=151552,
            heads=32,
            kv_heads=2,
            head_size=128,
            rotated_share=0.5,
        ),
    ),
)
