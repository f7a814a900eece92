"""Qwen 3 without experts: Llama with norms on each head of queries and keys."""

from __future__ import annotations

from .family import Family, HFModelType, QueryKeyNorm
from .qwen2 import read_hf

FAMILY = Family(
    name="qwen3",
    query_key_norm=QueryKeyNorm.EACH_HEAD,
    hf_types=(HFModelType(name="qwen3", read=read_hf, context=32768, head_size=128),),
)
