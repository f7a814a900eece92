"""Reads a folder of safetensors as the source of a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ingle.models.errors import UnsupportedModel
from ingle.models.families.family_registry import find_family
from ingle.models.gguf.gguf_writer import PlannedTensor, encode_pair
from ingle.models.safetensors.model_folder import NF4, read_folder
from ingle.models.weights.gguf_tensor_names import name_in_gguf, permute_for_gguf
from ingle.models.weights.hf_tensor_names import HFTensorNames
from ingle.models.weights.safetensors_weights import SafetensorsWeights

from ...llama_cpp.ggml_library import GGMLLibrary
from ...text.tokenization.hf_tokenizer import HFTokenizer
from .arrays import Floats
from .hf_metadata import model_pairs, rope_tensors
from .hf_vocabulary import find_pre_tokenizer, vocabulary_pairs
from .tensor_source import TensorSource
from .type_mixture import QuantizedShape

_READ = (
    *("*.safetensors", "*.safetensors.index.json", "*.jinja", "config.json"),
    *("generation_config.json", "special_tokens_map.json", "tokenizer.json"),
    "tokenizer_config.json",
)
# Tensors that llama.cpp expects fused, with their parts in order.
_FUSED_ATTENTION = {"attn_qkv": ("attn_q", "attn_k", "attn_v")}
_FUSED_GATE = {"ffn_up": ("ffn_gate", "ffn_up")}
_STREAMS = re.compile(r"(altup_\w+)\.\d+\.weight")
_LAYER_INPUTS = "per_layer_token_embd.weight"


class FolderSource(TensorSource):
    """Reads one tensor at a time, with the names and row order of GGUF files."""

    def __init__(self, path: Path) -> None:
        """Raises what `read_folder` raises, and `UnsupportedModel`."""
        folder = read_folder(path)
        if folder.quantization == NF4 or folder.matrices is not None:
            raise UnsupportedModel(
                f"{path} is quantised to {folder.quantization} already.",
                hint="Use the edition in BF16, F16 or F32.",
            )
        self.importance = {}
        self.path = path
        self.quantization = folder.quantization
        self.size = folder.tensor_bytes
        self.config = self._config = config = folder.config
        experts = [layer.experts.count for layer in config.layers if layer.experts is not None]
        self.shape = QuantizedShape(
            config.architecture,
            config.num_layers,
            config.num_heads,
            config.num_kv_heads,
            max(experts, default=0),
        )
        self._parameters = folder.parameters
        self._weights = HFTensorNames(SafetensorsWeights(path), config, folder.buffers)
        self._factors = rope_tensors(config)
        self.num_metadata_tensors = len(self._factors)
        self._names = dict(self._find_names())
        self.tensors = self._plan()

    @property
    def files(self) -> Sequence[Path]:
        """See `TensorSource.files`."""
        # Only the model's own files: the output may be written into the folder itself.
        return sorted({path for kind in _READ for path in self.path.glob(kind)})

    def pairs(self) -> Sequence[bytes]:
        """See `TensorSource.pairs`."""
        path, config = self.path, self._config
        model = model_pairs(path, config, self._parameters)
        words = vocabulary_pairs(path, config.vocab_size, HFTokenizer(path, config.vocab_size))
        words |= find_pre_tokenizer(path, config.vocab_size, model | words)
        return [encode_pair(key, value) for key, value in (model | words).items()]

    def floats(self, tensor: PlannedTensor, library: GGMLLibrary) -> Floats:
        """See `TensorSource.floats`."""
        if tensor.name in self._factors:
            return np.asarray([self._factors[tensor.name]], np.float32)
        weight = self._stacked(tensor.name)
        return weight.float().contiguous().numpy().reshape(-1, tensor.shape[0])

    def _plan(self) -> Sequence[PlannedTensor]:
        planned = [PlannedTensor(name, (len(v),), "F32") for name, v in self._factors.items()]
        for name in self._names:
            shape = tuple(self._stacked(name).shape)[::-1]
            matrices = self._matrices_of(name)
            if matrices > 1:
                shape = (*shape[:-1], shape[-1] // matrices, matrices)
            planned.append(PlannedTensor(name, shape, "F32"))  # the target decides on matrices
        return planned

    def _find_names(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return each tensor of the file with the parts that it is made of."""
        family = find_family(self._config.architecture)
        fusions = {
            **(_FUSED_ATTENTION if family.gguf_fuses_attention else {}),
            **(_FUSED_GATE if family.gguf_fuses_gate else {}),
        }
        found: dict[str, tuple[str, ...]] = {}
        for name in self._weights.names:
            if match := _STREAMS.fullmatch(name):
                whole = f"{match[1]}.weight"
                found[whole] = (*found.get(whole, ()), name)
                continue
            stem, kind = name.rsplit(".", 1)
            prefix, _, part = stem.rpartition(".")
            fused = next((whole for whole, parts in fusions.items() if part in parts), None)
            if fused is None:
                found[name_in_gguf(name, self._config)] = (name,)
            else:
                parts = tuple(f"{prefix}.{part}.{kind}" for part in fusions[fused])
                found[f"{prefix}.{fused}.{kind}"] = parts
        return list(found.items())

    def _matrices_of(self, name: str) -> int:
        """Return the number of matrices that a tensor of the file holds."""
        if name.endswith("_exps.weight"):
            experts = self._config.layers[int(name.split(".")[1])].experts
            assert experts is not None
            return experts.count
        if name.endswith((".attn_k_b.weight", ".attn_v_b.weight")):
            return self._config.num_heads
        return len(self._names[name]) if name.startswith("altup_") else 1

    def _stacked(self, name: str) -> torch.Tensor:
        parts = [self._weights.get(part) for part in self._names[name]]
        dense = [part for part in parts if isinstance(part, torch.Tensor)]
        assert len(dense) == len(parts)  # only quantised checkpoints have others
        weight = dense[0] if len(dense) == 1 else torch.cat(dense)
        if name == _LAYER_INPUTS:  # a table that leaves out the tokens of pictures
            missing = self._config.vocab_size - len(weight)
            weight = torch.nn.functional.pad(weight, (0, 0, 0, missing))
        return permute_for_gguf(name, weight, self._config)
