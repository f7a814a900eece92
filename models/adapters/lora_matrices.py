"""The matrices of LoRA adapters, for the layers of ingle's own engine.

Source: PEFT, `LoraConfig` and `lora.Linear`; llama.cpp, `build_lora_mm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from ingle.kernels.matmul.low_rank import LowRank

from ..config.model_config import ModelConfig
from ..errors import InvalidModel, UnsupportedModel
from ..layers.parameters import AdaptedLayer
from ..weights.gguf_tensor_names import GGUFTensorNames
from ..weights.gguf_weights import GGUFWeights
from ..weights.hf_tensor_names import HFTensorNames
from ..weights.safetensors_weights import SafetensorsWeights
from .adapter_settings import GGUF, MERGE, AdapterSettings
from .gguf_adapter import GGUFAdapterSettings
from .lora import LoraSettings


class LoraMatrices:
    """The matrices of an adapter in a folder, as `AdapterFolder` has it or PEFT saves it."""

    _settings: LoraSettings
    _weights: GGUFWeights | SafetensorsWeights

    def __init__(self, folder: Path) -> None:
        """Check the files.

        Raises `ModelNotFound`, `InvalidModel`, and `UnsupportedModel` for other adapters than LoRA.
        """
        self._folder = folder
        if (file := folder / GGUF).exists():
            self._settings = GGUFAdapterSettings(file)
            self._weights = GGUFWeights(file, self._settings.header)
        else:
            self._settings = settings = AdapterSettings(folder)
            self._weights = SafetensorsWeights(folder, settings.tensors)

    def of_layers(
        self,
        config: ModelConfig,
        layers: Mapping[str, AdaptedLayer],
        elsewhere: Mapping[str, tuple[int, int]] | None,
        device: torch.device,
        dtype: torch.dtype,
    ) -> Mapping[str, LowRank]:
        """What it adds to each of the model's `layers`, on `device`, in `dtype`.

        Those that other ranks compute are `elsewhere`, with their outputs and inputs; None for any,
        unchecked. Raises `InvalidModel` for matrices of other sizes, `UnsupportedModel` for other
        layers.
        """
        ups = _Ups(self._weights, self._settings)
        is_gguf = isinstance(self._weights, GGUFWeights)
        names = GGUFTensorNames(ups, config) if is_gguf else HFTensorNames(ups, config)
        found: dict[str, LowRank] = {}
        for name in names.names:
            layer = name.removesuffix(".weight")
            own = layers.get(layer)
            if own is None and elsewhere is None:
                continue
            size = (elsewhere or {}).get(layer) if own is None else (own.outputs, own.inputs)
            source = names.source_of(name)
            if source is None or size is None:
                raise UnsupportedModel(
                    f"{self._folder} changes {source or name!r}, which no adapter can here.",
                    hint=MERGE,
                )
            module = source.removesuffix(".weight")
            up = names.get(name)
            down = _dense(self._weights.get(self._settings.down(module)))
            assert isinstance(up, torch.Tensor)
            rank = self._settings.rank(module)
            if up.shape != (size[0], rank) or down.shape != (rank, size[1]):
                raise InvalidModel(
                    f"{self._folder} has matrices {tuple(down.shape)} and {tuple(up.shape)} for "
                    f"{module!r}, which do not fit this model with the rank {rank}.",
                    hint="Use it with the model that it was made for.",
                )
            if own is None:
                continue
            scaled = up.float() * self._settings.scale(module, rank)
            found[layer] = LowRank(down.to(device, dtype), scaled.to(device, dtype))
        return found


class _Ups:
    """The second matrices under the names of the weights that they change."""

    def __init__(self, weights: GGUFWeights | SafetensorsWeights, settings: LoraSettings) -> None:
        self._weights = weights
        self._settings = settings
        self.names = [f"{module}.weight" for module in sorted(settings.modules)]

    def get(self, name: str) -> torch.Tensor:
        """The matrix (outputs, rank)."""
        return _dense(self._weights.get(self._settings.up(name.removesuffix(".weight"))))


def _dense(weight: object) -> torch.Tensor:
    assert isinstance(weight, torch.Tensor)  # no settings allow others
    return weight
