"""Llama 1 to 3, and what is built like it: Mistral, SmolLM2, Yi and many more."""

from __future__ import annotations

from ..layers.pre_norm_block import PreNormBlock
from ..layers.transformer import Transformer


class Model(Transformer):
    """The plain pre-norm transformer; biases are taken where a file has them."""

    block = PreNormBlock
