"""Open a model's files, GGUF or safetensors: hyperparameters, tensors and tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil
import torch

from ingle.kernels.operations import Operations
from ingle.models.config.model_config import ModelConfig
from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.fit.paged_fit import check_paged_kv_type, weights_on_cpu
from ingle.models.heads.draft_head import DraftHead
from ingle.models.heads.eagle_files import open_eagle_head
from ingle.models.heads.eagle_settings import is_eagle_folder
from ingle.models.heads.head_files import HeadFiles, find_mtp_head
from ingle.models.heads.layer_heads import load_head
from ingle.models.heads.medusa_head import open_medusa_heads
from ingle.models.heads.medusa_settings import is_medusa_folder
from ingle.models.heads.mtp_file import is_mtp_file, read_mtp_file
from ingle.models.layers.parameters import RankPart
from ingle.models.layers.transformer import Transformer
from ingle.models.parallel.layer_stages import LayerStage
from ingle.models.safetensors.model_folder import read_folder
from ingle.models.weights.converted_weights import DequantizedWeights, NF4Weights
from ingle.models.weights.gguf_tensor_names import GGUFTensorNames
from ingle.models.weights.gguf_weights import GGUFWeights
from ingle.models.weights.hf_tensor_names import HFTensorNames
from ingle.models.weights.quantized_weights import open_folder_weights
from ingle.models.weights.weights import Weights

from ..base.load_spec import LoadSpec, Quantize
from ..text.tokenization.tokenizer import Tokenizer
from .model_tokenizer import open_tokenizer


@dataclass(frozen=True)
class ModelFiles:
    """A model's shape and its tensors, by the engine's names and conventions.

    With the `part` of a rank, `config` and `weights` are those of this part, and with its `stage`
    those of its layers.
    """

    config: ModelConfig
    weights: Weights
    parameters: int
    stored_bytes: int
    """Bytes of the weights as the engine holds them."""
    part: RankPart | None = None
    stage: LayerStage | None = None
    head: HeadFiles | None = None
    """The draft head among them."""

    def load(
        self,
        device: torch.device,
        operations: Operations,
        on_progress: Callable[[float], None] | None = None,
        *,
        quantize: Quantize = "none",
    ) -> Transformer:
        """The model on a device, which computes with `operations`.

        With `quantize` dense matrices of linear layers become `NF4Tensor`s. On a CPU weights are
        dequantised once if there is enough memory, rather than in every step.
        """
        weights = self._prepared(self.weights, device, operations, quantize)
        return Transformer(
            self.config,
            weights,
            device=device,
            operations=operations,
            on_progress=on_progress,
            part=self.part,
            stage=self.stage,
        )

    def load_head(
        self, spec: LoadSpec, model: Transformer, device: torch.device, operations: Operations
    ) -> DraftHead | None:
        """The head at `spec.draft_path` for a loaded model; its own one is at the model's path.

        None where that is another model, or nothing. Raises `ModelError`.
        """
        if spec.draft_path is None or spec.speculation in ("off", "ngram"):
            return None
        head: HeadFiles | None = self.head if spec.draft_path == spec.path else None
        path = Path(spec.draft_path)
        if is_mtp_file(path):
            read_mtp_file(path, self.config)
            head = find_mtp_head(GGUFWeights(path), self.config, GGUFTensorNames)
        elif is_medusa_folder(path):
            head = open_medusa_heads(path, self.config)
        elif is_eagle_folder(path):
            head = beside = open_eagle_head(path, self.config)
            check_paged_kv_type(head.title, beside.settings.config, spec.kv_type)
        if head is None:
            return None
        weights = self._prepared(head.weights, device, operations, spec.quantize)
        return load_head(
            replace(head, weights=weights), model, device=device, operations=operations
        )

    def _prepared(
        self, weights: Weights, device: torch.device, operations: Operations, quantize: Quantize
    ) -> Weights:
        """The tensors of the model, or of a head, as they are loaded."""
        if quantize == "nf4":
            weights = NF4Weights(weights, device=device)
        if not operations.reads_blocks and device.type == "cpu" and self._becomes_floats():
            weights = DequantizedWeights(weights, operations.dtype)
        return weights

    def _becomes_floats(self) -> bool:
        available = psutil.virtual_memory().available
        chosen = weights_on_cpu(self.parameters, self.stored_bytes, available)
        return chosen != self.stored_bytes


def open_model(path: Path) -> ModelFiles:
    """Check a GGUF file or a folder of safetensors.

    Raises `ModelNotFound`, `InvalidModel` or `UnsupportedModel`.
    """
    if path.is_dir():
        folder = read_folder(path)
        stored, config = open_folder_weights(folder), folder.config
        names = partial(HFTensorNames, buffers=folder.buffers)
        weights, head = names(stored, config), find_mtp_head(stored, config, names)
        return ModelFiles(config, weights, folder.parameters, folder.held_bytes, head=head)
    raw = GGUFWeights(path)
    config = config_from_gguf(raw.header)
    weights, header = GGUFTensorNames(raw, config), raw.header
    head = find_mtp_head(raw, config, GGUFTensorNames)
    return ModelFiles(config, weights, header.parameters, header.tensor_bytes, head=head)


@dataclass(frozen=True)
class ModelSource:
    """A model's files and its tokenizer."""

    files: ModelFiles
    tokenizer: Tokenizer


def open_source(path: Path) -> ModelSource:
    """Open a GGUF file or a folder of safetensors; raises `ModelError` if it cannot be used."""
    files = open_model(path)
    return ModelSource(files, open_tokenizer(path, files.config.vocab_size))
