"""The shape of a model as the catalog writes it down, for models that are not here yet."""

from __future__ import annotations

from ..config.model_config import ExpertConfig, LayerConfig, ModelConfig
from ..model_task import ModelTask
from .model_shape import LayerShape, ModelShape, ShapeNumbers


class CatalogShape(ShapeNumbers, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of a `ModelShape` whose blocks are all alike; bytes are of all of them together.

    `kv_layers` counts those that keep keys and values, 0 where all do; `matrices` are bytes of what
    is multiplied with, by tensor type, and `tied_type` is that of embeddings that make the logits.
    """

    layers: int
    kv_heads: int
    value_length: int = 0
    kv_layers: int = 0
    layer_bytes: int
    largest_bytes: int = 0
    expert_bytes: int = 0

    def __post_init__(self) -> None:
        if min(self.layers, self.embedding_length, self.vocab_size) <= 0:
            raise ValueError("a shape has layers, a width and a vocabulary")

    def shape(
        self, *, context: int, parameters: int = 0, task: ModelTask = ModelTask.GENERATE
    ) -> ModelShape:
        """The shape, completed by the arguments; the bytes are spread over all blocks."""
        shared = {name: getattr(self, name) for name in ShapeNumbers.__struct_fields__}
        return ModelShape(
            context=context,
            layers=tuple(self._layer(index) for index in range(self.layers)),
            parameters=parameters,
            task=task,
            **shared,
        )

    def config(self, *, context: int) -> ModelConfig:
        """The configuration for ingle's own engine, as far as memory depends on it."""
        experts = None
        if used := self.experts_used:  # how many there are counts in the bytes only
            experts = ExpertConfig(count=used, used=used, width=self.expert_feed_forward_length)
        return ModelConfig(
            architecture=self.architecture,
            vocab_size=self.vocab_size,
            hidden_size=self.embedding_length,
            intermediate_size=self.feed_forward_length,
            num_heads=self.head_count,
            num_kv_heads=max(1, self.kv_heads),
            head_size=self.key_length,
            context=context,
            norm_epsilon=1e-5,
            layers=(LayerConfig(experts=experts),) * self.layers,
            attention_scale=1.0,
            tied_embeddings=self.tied_bytes > 0,
        )

    def _layer(self, index: int) -> LayerShape:
        heads = self.kv_heads if index < (self.kv_layers or self.layers) else 0
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
