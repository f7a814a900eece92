"""LoRA adapters as PEFT saves them: `adapter_config.json` and `adapter_model.safetensors`.

Source: PEFT, `LoraConfig` and `lora.Linear`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from ingle.kernels.matmul.low_rank import LowRank

from ..config.model_config import ModelConfig
from ..errors import InvalidModel, UnsupportedModel
from ..layers.parameters import AdaptedLayer
from ..weights.hf_tensor_names import HFTensorNames
from ..weights.safetensors_weights import SafetensorsWeights
from .adapter_settings import MERGE, AdapterSettings


class PeftAdapter:
    """The matrices of an adapter in a folder, by the modules of the checkpoint."""

    def __init__(self, folder: Path) -> None:
        """Check the files.

        Raises `ModelNotFound`, `InvalidModel`, and `UnsupportedModel` for other adapters than LoRA.
        """
        self._folder = folder
        self._settings = AdapterSettings(folder)
        self._weights = SafetensorsWeights(folder, self._settings.tensors)

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
        names = HFTensorNames(_Ups(self._weights, self._settings.modules), config)
        found: dict[str, LowRank] = {}
        for name in names.names:
            layer = name.removesuffix(".weight")
            source, size = names.source_of(name), layers.get(layer)
            if source is None or size is None:
                raise UnsupportedModel(
                    f"{self._folder} changes {source or name!r}, which no adapter can here.",
                    hint=MERGE,
                )
            module = source.removesuffix(".weight")
            up, down = names.get(name), self._matrix(module, "A")
            assert isinstance(up, torch.Tensor)
            rank = self._settings.rank(module)
            if up.shape != (size.outputs, rank) or down.shape != (rank, size.inputs):
                raise InvalidModel(
                    f"{self._folder} has matrices {tuple(down.shape)} and {tuple(up.shape)} for "
                    f"{module!r}, which do not fit this model with the rank {rank}.",
                    hint="Use it with the model that it was made for.",
                )
            scaled = up.float() * self._settings.scale(module, rank)
            found[layer] = LowRank(down.to(device, dtype), scaled.to(device, dtype))
        return found

    def _matrix(self, module: str, half: str) -> torch.Tensor:
        return self._weights.get(f"base_model.model.{module}.lora_{half}.weight")


class _Ups:
    """The second matrices under the names of the weights that they change."""

    def __init__(self, weights: SafetensorsWeights, modules: Iterable[str]) -> None:
        self._weights = weights
        self.names = [f"{module}.weight" for module in sorted(modules)]

    def get(self, name: str) -> torch.Tensor:
        """The matrix (outputs, rank)."""
        module = name.removesuffix(".weight")
        return self._weights.get(f"base_model.model.{module}.lora_B.weight")
