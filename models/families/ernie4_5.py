"""ERNIE 4.5 without experts: Llama, whose checkpoints alternate the halves of each head."""

from __future__ import annotations

from .family import Family, HFModelType

FAMILY = Family(
    name="ernie4_5",
    hf_interleaves_heads=True,
    gguf_interleaves_heads=True,
    hf_types=(
        HFModelType(
            name="ernie4_5",
            context=131072,
            epsilon=1e-5,
            theta=500000.0,
            tied=True,
            vocab_size=103424,
            heads=16,
            kv_heads=2,
            head_size=128,
        ),
    ),
)
