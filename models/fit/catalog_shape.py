"""The shape of a model as the catalog writes it down, for models that are not here yet."""

from __future__ import annotations

import msgspec

from ..config.model_config import LayerConfig, ModelConfig
from ..model_task import ModelTask
from .model_shape import LayerShape, ModelShape


class CatalogShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of a `ModelShape` whose blocks are all alike; bytes are of all of them together.

    `kv_layers` counts those that keep keys and values, 0 where all do; `matrices` are bytes of what
    is multiplied with, by tensor type, and `tied_type` is that of embeddings that make the logits.
    """

    architecture: str
    layers: int
    embedding: int
    feed_forward: int
    heads: int
    kv_heads: int
    key_length: int
    value_length: int = 0
    kv_layers: int = 0
    vocabulary: int
    merges: int = 0
    layer_bytes: int
    largest_bytes: int = 0
    expert_bytes: int = 0
    expert_feed_forward: int = 0
    experts_used: int = 0
    input_bytes: int
    output_bytes: int = 0
    tied_bytes: int = 0
    tied_type: str = ""
    matrices: dict[str, int] = {}
    windowed: bool = False
    one_piece: bool = False
    has_cache: bool = True
    gated: bool = True

    def __post_init__(self) -> None:
        if min(self.layers, self.embedding, self.vocabulary) <= 0:
            raise ValueError("a shape has layers, a width and a vocabulary")

    @classmethod
    def of(cls, shape: ModelShape) -> CatalogShape:
        """The record of a shape; loses in which blocks more bytes are than in others."""
        cached = [layer for layer in shape.layers if layer.key_elements]
        keys = cached[0].key_elements if cached else 0
        values = cached[0].value_elements if cached else 0
        heads = keys // shape.key_length if shape.key_length else 0
        return cls(
            architecture=shape.architecture,
            layers=len(shape.layers),
            embedding=shape.embedding_length,
            feed_forward=shape.feed_forward_length,
            heads=shape.head_count,
            kv_heads=heads,
            key_length=shape.key_length,
            value_length=values // heads if heads else 0,
            kv_layers=len(cached) if len(cached) < len(shape.layers) else 0,
            vocabulary=shape.vocab_size,
            merges=shape.merges,
            layer_bytes=sum(layer.weights for layer in shape.layers),
            largest_bytes=max((layer.largest for layer in shape.layers), default=0),
            expert_bytes=sum(layer.experts for layer in shape.layers),
            expert_feed_forward=shape.expert_feed_forward_length,
            experts_used=shape.experts_used,
            input_bytes=shape.input_bytes,
            output_bytes=shape.output_bytes,
            tied_bytes=shape.tied_bytes,
            tied_type=shape.tied_type,
            matrices=dict(shape.matrices),
            windowed=shape.windowed,
            one_piece=shape.one_piece,
            has_cache=shape.has_cache,
            gated=shape.gated,
        )

    def shape(
        self, *, context: int, parameters: int = 0, task: ModelTask = ModelTask.GENERATE
    ) -> ModelShape:
        """The shape, completed by the arguments; the bytes are spread over all blocks."""
        return ModelShape(
            architecture=self.architecture,
            context=context,
            vocab_size=self.vocabulary,
            embedding_length=self.embedding,
            feed_forward_length=self.feed_forward,
            head_count=self.heads,
            key_length=self.key_length,
            layers=tuple(self._layer(index) for index in range(self.layers)),
            input_bytes=self.input_bytes,
            output_bytes=self.output_bytes,
            tied_bytes=self.tied_bytes,
            tied_type=self.tied_type,
            expert_feed_forward_length=self.expert_feed_forward,
            experts_used=self.experts_used,
            windowed=self.windowed,
            merges=self.merges,
            matrices=self.matrices,
            parameters=parameters,
            task=task,
            one_piece=self.one_piece,
            has_cache=self.has_cache,
            gated=self.gated,
        )

    def config(self, *, context: int) -> ModelConfig:
        """The shape as our own engine sees it, as far as memory depends on it."""
        return ModelConfig(
            architecture=self.architecture,
            vocab_size=self.vocabulary,
            hidden_size=self.embedding,
            intermediate_size=self.feed_forward,
            num_heads=self.heads,
            num_kv_heads=max(1, self.kv_heads),
            head_size=self.key_length,
            context=context,
            norm_epsilon=1e-5,
            layers=(LayerConfig(),) * self.layers,
            attention_scale=1.0,
            tied_embeddings=self.tied_bytes > 0,
        )

    def _layer(self, index: int) -> LayerShape:
        has_cache = index < (self.kv_layers or self.layers)
        heads = self.kv_heads if has_cache else 0
        return LayerShape(
            weights=_share(self.layer_bytes, index, self.layers),
            experts=_share(self.expert_bytes, index, self.layers),
            largest=self.largest_bytes,
            key_elements=heads * self.key_length,
            value_elements=heads * (self.value_length or self.key_length),
        )


def _share(total: int, index: int, count: int) -> int:
    """One of `count` equal parts; the first has the remainder."""
    return total // count + (total % count if index == 0 else 0)
