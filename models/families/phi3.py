"""Phi-3, 3.5 and 4."""

from __future__ import annotations

from ..layers.pre_norm_block import PreNormBlock
from ..layers.transformer import Transformer


class Model(Transformer):
    """As Llama; LongRoPE and the share of a head that rotates are in its configuration."""

    block = PreNormBlock
