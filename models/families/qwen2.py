"""Qwen 2 and 2.5."""

from __future__ import annotations

from ..layers.pre_norm_block import PreNormBlock
from ..layers.transformer import Transformer


class Model(Transformer):
    """As Llama, with biases on queries, keys and values."""

    block = PreNormBlock
