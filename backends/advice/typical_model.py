"""Estimates the shape of a model of which only the size is known."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from msgspec.structs import replace

from ingle.models.fit.catalog_shape import CatalogShape
from ingle.models.model_task import ModelTask

from ..registry.model_costs import ModelCosts


@dataclass(frozen=True)
class _Known:
    """A published model: billions of weights, blocks, widths, heads, vocabulary."""

    parameters: float
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied: bool = False


_KNOWN = (
    _Known(0.135, 30, 576, 1536, 9, 3, 64, 49_152, tied=True),  # SmolLM2
    _Known(0.6, 28, 1024, 3072, 16, 8, 128, 151_936, tied=True),  # Qwen3
    _Known(1.7, 28, 2048, 6144, 16, 8, 128, 151_936, tied=True),
    _Known(4.0, 36, 2560, 9728, 32, 8, 128, 151_936, tied=True),
    _Known(8.2, 36, 4096, 12288, 32, 8, 128, 151_936),
    _Known(14.8, 40, 5120, 17408, 40, 8, 128, 151_936),
    _Known(32.8, 64, 5120, 25600, 64, 8, 128, 151_936),
    _Known(70.6, 80, 8192, 28672, 64, 8, 128, 128_256),  # Llama 3
)

_EXPERTS_USED = 8
_MOST_BUSY = 1 / 8
"""The largest share of its experts that a token passes: 8 of 128 in Qwen3, 4 of 32 in gpt-oss."""


def typical_costs(
    parameters: int,
    stored: int,
    context: int,
    *,
    tensor_type: str = "",
    embeds: bool = False,
    active: int = 0,
) -> ModelCosts:
    """Return the costs of a decoder or encoder of this many weights and bytes, shaped like known
    models.

    `tensor_type` is the type of most weights; in a mixture of experts only `active` weights take
    part in a token.
    """
    # A mixture of experts is as deep and wide as a dense model between its two sizes.
    size = sqrt(parameters * (active or parameters))
    like = min(_KNOWN, key=lambda known: abs(log(known.parameters * 1e9 / max(1, size))))
    busy = min(_MOST_BUSY, active / max(1, parameters) / 2) if active else 1.0
    idle = 1 - active / max(1, parameters) if active else 0.0
    # The embeddings are at most half of all weights.
    rows = like.vocabulary * like.width
    table = min(stored // 2, stored * rows // max(1, parameters))
    output = 0 if like.tied or embeds else table
    layer = max(0, stored - table - output) // like.layers
    recorded = CatalogShape(
        architecture="llama",
        layers=like.layers,
        embedding_length=like.width,
        feed_forward_length=like.feed_forward,
        head_count=like.heads,
        kv_heads=0 if embeds else like.kv_heads,
        key_length=like.head_size,
        vocab_size=like.vocabulary,
        merges=like.vocabulary,
        layer_bytes=layer * like.layers,
        expert_bytes=int(layer * idle / (1 - busy)) * like.layers if idle else 0,
        expert_feed_forward_length=like.width // 2 if active else 0,
        experts_used=_EXPERTS_USED if active else 0,
        input_bytes=table,
        output_bytes=output,
        tied_bytes=table if like.tied and not embeds else 0,
        one_piece=embeds,
        has_cache=not embeds,
    )
    task = ModelTask.EMBED if embeds else ModelTask.GENERATE
    shape = recorded.shape(context=context, parameters=parameters, task=task)
    matrices = {tensor_type: recorded.layer_bytes} if tensor_type else {}
    experts = round(_EXPERTS_USED / busy) if active else 0
    return ModelCosts(
        shape=replace(shape, matrices=matrices, expert_count=experts),
        config=None if embeds or active else recorded.config(context=context),
        stored=stored,
        parameters=parameters,
        context=context,
    )
