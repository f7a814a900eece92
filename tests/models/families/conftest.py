"""Fixtures: small random models of every family, made by transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import pytest
import torch

from ingle.kernels.operations import Operations
from ingle.models.config.model_config import ModelConfig
from ingle.models.errors import InvalidModel
from ingle.models.families.hf_config import config_from_hf
from ingle.models.layers.transformer import Transformer
from ingle.models.weights.hf_tensor_names import HFTensorNames
from ingle.models.weights.weights import Weight, Weights
from tests.harness.full_attention import FullAttention
from tests.harness.text_models import causal_model

CPU = torch.device("cpu")
EXACT = Operations(torch.float32)
_SHAPE = {
    "hidden_size": 48,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 99,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class MemoryWeights:
    """Tensors in memory under arbitrary names."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = dict(tensors)

    @property
    def names(self) -> Iterable[str]:
        return self.tensors.keys()

    def get(self, name: str) -> Weight:
        if name not in self.tensors:
            raise InvalidModel(f"There is no tensor {name!r}.")
        return self.tensors[name]


@dataclass(frozen=True)
class RandomModel:
    """A transformers model, its settings as in `config.json`, and its tensors."""

    module: Any
    settings: Mapping[str, Any]

    @property
    def raw(self) -> MemoryWeights:
        return MemoryWeights(self.module.state_dict())

    @property
    def config(self) -> ModelConfig:
        return config_from_hf(self.settings)

    def canonical(self) -> HFTensorNames:
        return HFTensorNames(self.raw, self.config)

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return transformers' logits (tokens, vocabulary)."""
        with torch.no_grad():
            return self.module(tokens[None]).logits[0]


MakeModel = Callable[..., RandomModel]
ComputeLogits = Callable[..., torch.Tensor]


@pytest.fixture
def make_random_model() -> MakeModel:
    """Return a factory of random models of a model type; keywords change its settings."""
    transformers: Any = import_module("transformers")  # partially typed

    def make(kind: str, **settings: Any) -> RandomModel:
        random = torch.Generator().manual_seed(7)
        config = transformers.AutoConfig.for_model(kind, **{**_SHAPE, **settings})
        config._attn_implementation = "eager"  # the implementation that supports soft caps
        module = causal_model(config).float().eval()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.normal_(1.0 if "norm" in name else 0.0, 0.2, generator=random)
            for name, buffer in module.named_buffers():
                if name.endswith(("e_score_correction_bias", "expert_bias")):
                    buffer.normal_(0.0, 0.2, generator=random)
                elif name.endswith("layer_scalar"):
                    buffer.normal_(1.0, 0.2, generator=random)
        return RandomModel(module, json.loads(config.to_json_string(use_diff=False)))

    return make


@pytest.fixture
def memory_weights() -> type[MemoryWeights]:
    """Return a factory of `Weights` over a dictionary."""
    return MemoryWeights


@pytest.fixture
def compute_logits() -> ComputeLogits:
    """Return a function that computes the logits of one sequence by our engine in fp32."""

    def compute(
        config: ModelConfig, weights: Weights, tokens: torch.Tensor, **changes: Any
    ) -> torch.Tensor:
        config = replace(config, **changes)
        model = Transformer(config, weights, device=CPU, operations=EXACT)
        places = torch.arange(len(tokens))
        return model.forward(tokens, places, FullAttention(config), places)

    return compute


@pytest.fixture
def tokens() -> torch.Tensor:
    """Return a sequence longer than any sliding window used here."""
    return torch.randint(3, 99, (200,), generator=torch.Generator().manual_seed(3))
