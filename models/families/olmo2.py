"""OLMo 2 and 3."""

from __future__ import annotations

from ..layers.attention import QueryKeyNorm
from ..layers.post_norm_block import PostNormBlock
from ..layers.transformer import Transformer


class Olmo2Block(PostNormBlock):
    """Normalises the heads of queries, and those of keys, as one."""

    query_key_norm = QueryKeyNorm.ALL_HEADS


class Model(Transformer):
    """Norms behind the parts of a layer, and on queries and keys."""

    block = Olmo2Block
