"""Models of transformers with random weights, for text alone."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def causal_model(config: Any) -> Any:
    """Make a model with a head for tokens; that of Mistral 4 has no place among transformers'."""
    transformers: Any = import_module("transformers")
    if config.model_type == "mistral4":
        module: Any = import_module("transformers.models.mistral4.modeling_mistral4")
        return module.Mistral4ForCausalLM._from_config(config)
    return transformers.AutoModelForCausalLM.from_config(config)
