"""SmolLM3."""

from __future__ import annotations

from ..layers.pre_norm_block import PreNormBlock
from ..layers.transformer import Transformer


class Model(Transformer):
    """As Llama; which layers know no positions is in its configuration."""

    block = PreNormBlock
