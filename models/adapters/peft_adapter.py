"""LoRA adapters as PEFT saves them: `adapter_config.json` and `adapter_model.safetensors`.

Source: PEFT, `LoraConfig` and `lora.Linear`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from ingle.kernels.matmul.low_rank import LowRank

from ..config.config_fields import ConfigFields
from ..config.model_config import ModelConfig
from ..errors import InvalidModel, ModelNotFound, UnsupportedModel
from ..json_object import read_json_object
from ..layers.parameters import AdaptedLayer
from ..safetensors.safetensors_header import read_safetensors_header
from ..weights.hf_tensor_names import HFTensorNames
from ..weights.safetensors_weights import SafetensorsWeights

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MOST_RANK = 256
_NAME = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
_PLAIN = re.compile(r"[\w.]+")
_OTHER_KINDS = {
    "use_dora": "DoRA",
    "use_qalora": "QALoRA",
    "alora_invocation_tokens": "activated LoRA",
}
_DAMAGED = "Download or save the adapter again."
_MERGE = "Merge it into its model with PEFT, and add that."


class PeftAdapter:
    """The matrices of an adapter in a folder, by the modules of the checkpoint."""

    def __init__(self, folder: Path) -> None:
        """Check the files.

        Raises `ModelNotFound`, `InvalidModel`, and `UnsupportedModel` for other adapters than LoRA.
        """
        settings = read_json_object(folder / CONFIG)
        if settings is None:
            raise ModelNotFound(
                f"{folder} has no {CONFIG}.", hint="Name the folder of an adapter saved by PEFT."
            )
        self._folder = folder
        self._fields = ConfigFields(settings, f"{folder.as_posix()}/{CONFIG}")
        self._check()
        path = folder / WEIGHTS
        tensors = {tensor.name: (path, tensor) for tensor in read_safetensors_header(path)}
        self._weights = SafetensorsWeights(folder, tensors)
        self.modules = self._find_modules(tensors)
        """The names of the layers that it changes."""

    def matrices(
        self,
        config: ModelConfig,
        layers: Mapping[str, AdaptedLayer],
        device: torch.device,
        dtype: torch.dtype,
    ) -> Mapping[str, LowRank]:
        """What it adds to each of the model's `layers`, on `device`, in `dtype`.

        Raises `InvalidModel` for matrices of other sizes, `UnsupportedModel` for other layers.
        """
        names = HFTensorNames(_Ups(self._weights, self.modules), config)
        found: dict[str, LowRank] = {}
        for name in names.names:
            layer = name.removesuffix(".weight")
            source, size = names.source_of(name), layers.get(layer)
            if source is None or size is None:
                raise UnsupportedModel(
                    f"{self._folder} changes {source or name!r}, which no adapter can here.",
                    hint=_MERGE,
                )
            module = source.removesuffix(".weight")
            up, down = names.get(name), self._matrix(module, "A")
            assert isinstance(up, torch.Tensor)
            rank = self._rank(module)
            if up.shape != (size.outputs, rank) or down.shape != (rank, size.inputs):
                raise InvalidModel(
                    f"{self._folder} has matrices {tuple(down.shape)} and {tuple(up.shape)} for "
                    f"{module!r}, which do not fit this model with the rank {rank}.",
                    hint="Use it with the model that it was made for.",
                )
            scaled = up.float() * self._scale(module, rank)
            found[layer] = LowRank(down.to(device, dtype), scaled.to(device, dtype))
        return found

    def _check(self) -> None:
        fields = self._fields
        kind = fields.text("peft_type", "LORA")
        if kind != "LORA":
            fields.refuse(f"is an adapter of the kind {kind[:40]!r}, not LoRA", _MERGE)
        for key, what in _OTHER_KINDS.items():
            if fields.says_something(key):
                fields.refuse(f"uses {what}, which no engine here computes", _MERGE)
        for key in ("rank_pattern", "alpha_pattern"):
            patterns = fields.group(key)
            if patterns is not None and not all(map(_PLAIN.fullmatch, patterns.names)):
                fields.refuse(f"has regular expressions under {key!r}", _MERGE)
        if fields.says_something("modules_to_save") or fields.text("bias", "none") != "none":
            fields.refuse("replaces whole layers or biases beside its matrices", _MERGE)
        fields.integer("r", 1, _MOST_RANK)
        fields.number("lora_alpha")

    def _find_modules(self, tensors: Iterable[str]) -> frozenset[str]:
        halves: dict[str, set[str]] = {"A": set(), "B": set()}
        for name in tensors:
            match = _NAME.fullmatch(name)
            if match is None:
                raise UnsupportedModel(
                    f"{self._folder} has the tensor {name!r}, which is no matrix of LoRA.",
                    hint=_MERGE,
                )
            halves[match[2]].add(match[1])
        if halves["A"] != halves["B"] or not halves["A"]:
            raise InvalidModel(
                f"{self._folder} lacks one of the two matrices of a layer.", hint=_DAMAGED
            )
        return frozenset(halves["A"])

    def _matrix(self, module: str, half: str) -> torch.Tensor:
        return self._weights.get(f"base_model.model.{module}.lora_{half}.weight")

    def _rank(self, module: str) -> int:
        rank = self._pattern("rank_pattern", module)
        return self._fields.integer("r", 1, _MOST_RANK) if rank is None else int(rank)

    def _scale(self, module: str, rank: int) -> float:
        alpha = self._pattern("alpha_pattern", module) or self._fields.number("lora_alpha")
        root = self._fields.flag("use_rslora", False)
        return alpha / (math.sqrt(rank) if root else rank)

    def _pattern(self, key: str, module: str) -> float | None:
        """The value of the first pattern that a module's name ends with."""
        patterns = self._fields.group(key)
        for pattern in () if patterns is None else patterns.names:
            if module == pattern or module.endswith(f".{pattern}"):
                assert patterns is not None
                return patterns.number(pattern)
        return None


class _Ups:
    """The second matrices under the names of the weights that they change."""

    def __init__(self, weights: SafetensorsWeights, modules: Iterable[str]) -> None:
        self._weights = weights
        self.names = [f"{module}.weight" for module in sorted(modules)]

    def get(self, name: str) -> torch.Tensor:
        """The matrix (outputs, rank)."""
        module = name.removesuffix(".weight")
        return self._weights.get(f"base_model.model.{module}.lora_B.weight")
