"""Gemma 2."""

from __future__ import annotations

from ..layers.sandwich_norm_block import SandwichNormBlock
from ..layers.transformer import Transformer


class Model(Transformer):
    """Four norms a layer; soft caps and alternating windows are in its configuration."""

    block = SandwichNormBlock
