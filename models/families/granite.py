"""Granite 3 and 4 without experts."""

from __future__ import annotations

from ..layers.pre_norm_block import PreNormBlock
from ..layers.transformer import Transformer


class Model(Transformer):
    """As Llama; its four scales are in its configuration."""

    block = PreNormBlock
