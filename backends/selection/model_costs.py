"""`ModelCosts`: what a model would take of a machine's memory, engine by engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingle.models.config.model_config import ModelConfig
from ingle.models.errors import ModelError
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.fit.llama_cpp_fit import GPUSplit, LoadParameters, SplitEstimate, estimate_split
from ingle.models.fit.model_shape import ModelShape, shape_of
from ingle.models.fit.paged_fit import (
    estimate_own_on_cpu,
    estimate_own_on_gpu,
    nf4_bytes,
    weights_on_cpu,
)
from ingle.models.fit.process_overhead import vocabulary_bytes
from ingle.models.gguf.gguf_header import GGUFHeader
from ingle.models.model_task import ModelTask, Pooling
from ingle.models.safetensors.model_folder import ModelFolder

from ..base.load_spec import Quantize


@dataclass(frozen=True, kw_only=True)
class ModelCosts:
    """A model by its numbers: `shape` is llama.cpp's view of it, `config` our engine's.

    One of them is None where that engine does not know the model.
    """

    shape: ModelShape | None
    config: ModelConfig | None
    stored: int
    parameters: int
    context: int

    @classmethod
    def of(cls, model: GGUFHeader | ModelFolder, pooling: Pooling | None = None) -> ModelCosts:
        """Those of a file or a folder; `pooling` makes it embed texts."""
        shape = config = None
        if isinstance(model, ModelFolder):
            config, context = model.config, model.config.context
        else:
            shape, context = shape_of(model), model.context
            if pooling not in (None, Pooling.RANK) and shape.task is ModelTask.GENERATE:
                whole = pooling in (Pooling.MEAN, Pooling.CLS)
                shape = replace(shape, task=ModelTask.EMBED, one_piece=shape.one_piece or whole)
            config = _config(model)
        return cls(
            shape=shape,
            config=config,
            stored=model.tensor_bytes,
            parameters=model.parameters,
            context=context,
        )

    @property
    def layers(self) -> int:
        """Transformer blocks."""
        if self.shape is not None:
            return len(self.shape.layers)
        return 0 if self.config is None else self.config.num_layers

    def on_llama(self, load: LoadParameters, split: GPUSplit = GPUSplit()) -> SplitEstimate:  # noqa: B008
        """On llama.cpp, with what `split` says on the GPU; only for a model it knows."""
        assert self.shape is not None
        return estimate_split(self.shape, load, split)

    def on_own_gpu(self, load: LoadParameters, quantize: Quantize = "none") -> SplitEstimate:
        """On a GPU, by ingle's own engine; only for a model it knows."""
        assert self.config is not None
        return estimate_own_on_gpu(
            self.config, load, weights=self._kept(quantize), vocabulary=self._vocabulary
        )

    def on_own_cpu(
        self, load: LoadParameters, available: int, quantize: Quantize = "none"
    ) -> SplitEstimate:
        """On the processor, by ingle's own engine; weights become floats where those fit."""
        assert self.config is not None
        kept = self._kept(quantize)
        return estimate_own_on_cpu(
            self.config,
            load,
            weights=weights_on_cpu(self.parameters, kept, available),
            mapped=kept if self.shape is not None else 0,  # safetensors are closed after reading
            vocabulary=self._vocabulary,
        )

    def _kept(self, quantize: Quantize) -> int:
        """Bytes of the weights in the form that the engine keeps them in."""
        if quantize == "none" or self.config is None:
            return self.stored
        return nf4_bytes(self.config, self.parameters, self.stored)

    @property
    def _vocabulary(self) -> int:
        if self.shape is not None:
            return vocabulary_bytes(self.shape.vocab_size, self.shape.merges)
        assert self.config is not None
        return vocabulary_bytes(self.config.vocab_size, self.config.vocab_size)


def _config(header: GGUFHeader) -> ModelConfig | None:
    try:
        return config_from_gguf(header)
    except ModelError:
        return None
