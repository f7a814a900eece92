"""How much of the machine's memory a model takes on the engine that runs it."""

from __future__ import annotations

from ingle.backends.base import EngineKind, LoadSpec, Quantize
from ingle.backends.own_engine import OwnEngine
from ingle.models.config import ModelConfig
from ingle.models.fit import default_context, estimate_memory
from ingle.models.gguf import GGUFHeader
from ingle.models.gguf_config import config_from_gguf
from ingle.models.kv_type import KVType
from ingle.models.model_folder import ModelFolder
from ingle.models.paged_fit import (
    default_paged_context,
    estimate_paged_memory,
    nf4_bytes,
    weights_on_cpu,
)

_TORCH, _TORCH_WITH_GPU = 300 * 2**20, 3 * 2**29
"""Bytes that PyTorch takes before anything is loaded."""


class ModelMemory:
    """The needs of one model, or of a model and its draft, on one engine."""

    def __init__(
        self,
        engine: EngineKind,
        own: OwnEngine,
        *,
        on_gpu: bool,
        available: int,
        quantize: Quantize = "none",
    ) -> None:
        """`on_gpu` is whether ingle's own engine may use a GPU."""
        self._quantize = quantize
        self._is_own = engine is EngineKind.CUDA
        self._gpu = own.gpu_memory if on_gpu else 0
        self._available = available

    def context(self, model: GGUFHeader | ModelFolder, kv_type: KVType) -> int:
        """The tokens of context to load a model with when nobody said how many."""
        if isinstance(model, GGUFHeader) and not self._is_own:
            return default_context(model, self._available, kv_type)
        if self._gpu:
            return default_paged_context(_shape(model), self._stored(model), self._gpu, kv_type)
        return default_paged_context(
            _shape(model), self._weights(model), self._available - _TORCH, kv_type
        )

    def bytes(self, model: GGUFHeader | ModelFolder, spec: LoadSpec, batch: int) -> int:
        """The machine's memory for the model; that of a GPU does not count."""
        if isinstance(model, GGUFHeader) and not self._is_own:
            return estimate_memory(
                model,
                context=spec.context,
                slots=spec.slots,
                batch=batch,
                kv_type=spec.kv_type,
                flash_attention=spec.flash_attention != "off",
            ).total
        if self._gpu:
            return _TORCH_WITH_GPU
        estimate = estimate_paged_memory(
            _shape(model),
            self._weights(model),
            context=spec.context,
            slots=spec.slots,
            batch=batch,
            kv_type=spec.kv_type,
        )
        return _TORCH + estimate.total

    def _weights(self, model: GGUFHeader | ModelFolder) -> int:
        return weights_on_cpu(model.parameters, self._stored(model), self._available)

    def _stored(self, model: GGUFHeader | ModelFolder) -> int:
        """Bytes of the weights in the form that the engine keeps them in."""
        if self._quantize == "none":
            return model.tensor_bytes
        return nf4_bytes(_shape(model), model.parameters, model.tensor_bytes)


def _shape(model: GGUFHeader | ModelFolder) -> ModelConfig:
    return config_from_gguf(model) if isinstance(model, GGUFHeader) else model.config
