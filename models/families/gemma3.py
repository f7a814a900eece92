"""Gemma 3, its text half."""

from __future__ import annotations

from ..layers.attention import QueryKeyNorm
from ..layers.sandwich_norm_block import SandwichNormBlock
from ..layers.transformer import Transformer


class Gemma3Block(SandwichNormBlock):
    """Normalises every head of queries and keys."""

    query_key_norm = QueryKeyNorm.EACH_HEAD


class Model(Transformer):
    """As Gemma 2 without soft caps on attention, and with norms on queries and keys."""

    block = Gemma3Block
