"""Which architectures ingle's own engine has, and how one is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..config.model_config import ModelConfig
from ..errors import UnsupportedModel

if TYPE_CHECKING:  # the daemon asks for the names, and never imports torch
    import torch

    from ingle.kernels.operations import Operations

    from ..layers.transformer import Transformer
    from ..weights.weights import Weights

# GGUF's name of a family: the module that has it.
_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "llama": "llama",
        "qwen2": "qwen2",
        "qwen3": "qwen3",
        "gemma2": "gemma2",
        "gemma3": "gemma3",
        "phi3": "phi3",
        "granite": "granite",
        "smollm3": "smollm3",
        "olmo2": "olmo2",
    }
)
ARCHITECTURES = frozenset(_MODULES)


def load_architecture(
    config: ModelConfig,
    weights: Weights,
    *,
    device: torch.device,
    operations: Operations,
    on_progress: Callable[[float], None] | None = None,
) -> Transformer:
    """The model with its weights on `device`, which computes with `operations`.

    `on_progress` hears the share of tensors loaded so far. Raises `UnsupportedModel` for an unknown
    architecture or a tensor that no layer takes, `InvalidModel` for one that is missing or does
    not fit the configuration.
    """
    module = _MODULES.get(config.architecture)
    if module is None:
        raise UnsupportedModel(
            f"ingle's own engine does not know the architecture {config.architecture!r}.",
            hint="Let llama.cpp run it.",
        )
    model = import_module(f".{module}", __package__).Model
    return model(config, weights, device=device, operations=operations, on_progress=on_progress)
