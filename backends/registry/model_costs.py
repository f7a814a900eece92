"""The sizes of a model from which engines compute their memory needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ingle.kernels.formats.weight_format import GGML_FORMATS
from ingle.models.config.model_config import ModelConfig
from ingle.models.errors import ModelError
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.fit.model_shape import ModelShape, shape_of
from ingle.models.fit.process_overhead import vocabulary_bytes
from ingle.models.gguf.gguf_header import GGUFHeader
from ingle.models.heads.eagle_settings import EagleSettings, with_eagle_layer
from ingle.models.heads.head_tensors import mtp_tensors, tensors_behind, with_mtp_layer
from ingle.models.heads.medusa_settings import read_medusa_settings
from ingle.models.heads.mtp_file import read_mtp_file
from ingle.models.model_task import ModelTask, Pooling
from ingle.models.parallel.model_shard import PLAIN_BLOCKS, ColumnBlocks, column_blocks
from ingle.models.safetensors.model_folder import ModelFolder
from ingle.models.safetensors.safetensors_index import find_tensors


@dataclass(frozen=True, kw_only=True)
class ModelCosts:
    """Sizes of a model; `shape` is None for a folder, `config` for an unknown architecture.

    `stored` are the bytes of its weights as engines hold them unless they convert them,
    `stored_in_fp8` on GPUs that multiply FP8 if that is less, else 0. Of these ingle's own engine
    reads `own_share`: not what predicts later tokens, unless it is `headed`, loaded with its head.
    Several devices divide columns of its matrices by `blocks`.
    llama.cpp's costs follow from the `shape`, those of ingle's own engine from the `config`.
    """

    shape: ModelShape | None
    config: ModelConfig | None
    stored: int
    parameters: int
    context: int
    stored_in_fp8: int = 0
    own_share: float = 1.0
    blocks: ColumnBlocks = PLAIN_BLOCKS
    headed: ModelCosts | None = None

    @classmethod
    def of(cls, model: GGUFHeader | ModelFolder, pooling: Pooling | None = None) -> ModelCosts:
        """Read the sizes of a file or a folder; `pooling` makes the model an embedder."""
        shape = config = None
        in_fp8, blocks = 0, PLAIN_BLOCKS
        if isinstance(model, ModelFolder):
            sizes = {name: tensor.bytes for name, (_, tensor) in model.tensors.items()}
            config, context = model.config, model.config.context
            stored = model.held_bytes
            in_fp8 = model.fp8_bytes if model.fp8_bytes < stored else 0
        else:
            sizes = {tensor.name: tensor.bytes for tensor in model.tensors}
            shape, context = shape_of(model), model.context
            stored, blocks = model.tensor_bytes, _blocks_of(model)
            if pooling not in (None, Pooling.RANK) and shape.task is ModelTask.GENERATE:
                whole = pooling in (Pooling.MEAN, Pooling.CLS)
                shape = replace(shape, task=ModelTask.EMBED, one_piece=shape.one_piece or whole)
            with suppress(ModelError):
                config = config_from_gguf(model)
        found = cls(
            shape=shape,
            config=config,
            stored=stored,
            parameters=model.parameters,
            context=context,
            stored_in_fp8=in_fp8,
            blocks=blocks,
        )
        return found if config is None else found._with_head(sizes, config)

    def _with_head(self, sizes: Mapping[str, int], config: ModelConfig) -> ModelCosts:
        """The costs with what is known of tensors of these sizes behind the model's layers."""
        behind, whole = tensors_behind(sizes, config), max(1, sum(sizes.values()))
        left = sum(sizes[name] for name in behind)
        costs = dataclasses.replace(self, own_share=1 - left / whole)
        head = mtp_tensors(sizes, config)
        if head is None:
            return costs
        left -= sum(sizes[name] for name in head.values())
        headed = dataclasses.replace(
            costs, own_share=1 - left / whole, config=with_mtp_layer(config)
        )
        return dataclasses.replace(costs, headed=headed)

    def with_eagle_head(self, settings: EagleSettings) -> ModelCosts:
        """The costs of the model with a head that lies beside it; raises `ModelError`."""
        assert self.config is not None
        sizes = (tensor.bytes for _, tensor in find_tensors(settings.path).values())
        share = self.own_share + sum(sizes) / max(1, self.stored)
        return dataclasses.replace(
            self, config=with_eagle_layer(self.config, settings), own_share=share, headed=None
        )

    def with_mtp_file(self, path: Path) -> ModelCosts:
        """The costs of the model with the MTP head of another file; raises `ModelError`."""
        assert self.config is not None
        sizes = {tensor.name: tensor.bytes for tensor in read_mtp_file(path, self.config).tensors}
        own = mtp_tensors(sizes, self.config) or {}
        share = self.own_share + sum(sizes[name] for name in own.values()) / max(1, self.stored)
        return dataclasses.replace(
            self, config=with_mtp_layer(self.config), own_share=share, headed=None
        )

    def with_medusa_heads(self, path: Path) -> ModelCosts:
        """The costs of the model with the Medusa heads in a folder; raises `ModelError`."""
        assert self.config is not None
        settings = read_medusa_settings(path)
        settings.check_fits(self.config)
        own = sum(settings.tensors[name].bytes for name in settings.names.values())
        share = self.own_share + own / max(1, self.stored)
        return dataclasses.replace(self, own_share=share, headed=None)

    def without_fp8(self) -> ModelCosts:
        """The costs on GPUs that do not multiply FP8."""
        return dataclasses.replace(self, stored_in_fp8=0)

    @property
    def layers(self) -> int:
        """The number of transformer blocks."""
        if self.shape is not None:
            return len(self.shape.layers)
        return 0 if self.config is None else self.config.num_layers

    @property
    def vocabulary(self) -> int:
        """The bytes of the tokenizer's tables."""
        if self.shape is not None:
            return vocabulary_bytes(self.shape.vocab_size, self.shape.merges)
        assert self.config is not None
        return vocabulary_bytes(self.config.vocab_size, self.config.vocab_size)


def _blocks_of(header: GGUFHeader) -> ColumnBlocks:
    types = {tensor.name: tensor.type for tensor in header.tensors}

    def block(name: str) -> int:
        form = GGML_FORMATS.get(types[name])
        return 1 if form is None else form.block_elements

    return column_blocks(types, block)
