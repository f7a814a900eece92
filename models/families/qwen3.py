"""Qwen 3 without experts."""

from __future__ import annotations

from ..layers.attention import QueryKeyNorm
from ..layers.pre_norm_block import PreNormBlock
from ..layers.transformer import Transformer


class Qwen3Block(PreNormBlock):
    """Normalises every head of queries and keys."""

    query_key_norm = QueryKeyNorm.EACH_HEAD


class Model(Transformer):
    """As Llama, with norms on queries and keys."""

    block = Qwen3Block
