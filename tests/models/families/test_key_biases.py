"""`key_biases`: the reported bias equals the keys' difference from a model without bias."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ingle.kernels.attention.attention_input import AttentionInput
from ingle.kernels.attention.paged_attention_reference import norm_rope_reference
from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.operations import Operations
from ingle.models.config.model_config import ModelConfig
from ingle.models.layers.transformer import Transformer
from tests.harness.full_attention import FullAttention

CPU = torch.device("cpu")
EXACT = Operations(torch.float32)
_WITHOUT: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {"head_dim": 16},
    "gemma3_text": {"head_dim": 16, "query_pre_attn_scalar": 16},
    "phi3": {},
    "olmo2": {},
}


class Recorder(FullAttention):
    """Full attention that records the keys of each layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.keys: list[torch.Tensor] = []

    def attend(self, layer: int, x: AttentionInput) -> Activations:
        query, key, value = norm_rope_reference(x)
        self.keys.append(key.clone())
        return super().attend(layer, AttentionInput(query, key, value))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("qwen2", {}),
        pytest.param("llama", {"attention_bias": True}, marks=pytest.mark.slow),
        pytest.param(
            "smollm3",
            {"attention_bias": True, "no_rope_layers": [0, 1, 1]},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_key_bias_equals_the_difference_to_a_model_without_bias(
    make_random_model: Any,
    memory_weights: Any,
    tokens: torch.Tensor,
    kind: str,
    settings: dict[str, Any],
) -> None:
    random = make_random_model(kind, **settings)
    weights = random.canonical()
    tensors: dict[str, Any] = {name: weights.get(name) for name in weights.names}
    first = "blk.0.attn_k.bias"
    without = {**tensors, first: torch.zeros_like(tensors[first])}
    places = torch.arange(len(tokens))

    def load(weights: dict[str, Any]) -> tuple[Transformer, list[torch.Tensor]]:
        model = Transformer(
            random.config,
            memory_weights(weights),
            device=CPU,
            operations=EXACT,
        )
        recorder = Recorder(random.config)
        model.forward(tokens, places, recorder, places[-1:])
        return model, recorder.keys

    (model, keys), (_, others) = load(tensors), load(without)
    biases = model.key_biases(len(tokens) + 5)
    assert len(biases) == random.config.num_layers
    assert all(bias is not None for bias in biases)
    assert biases[0] is not None
    part = biases[0].at(places)
    assert float(part.abs().max()) > 0.1
    torch.testing.assert_close(keys[0] - others[0], part, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(biases[0].at(places[7:9]), part[7:9])


@pytest.mark.parametrize("kind", _WITHOUT)
def test_models_without_key_bias_report_none(make_random_model: Any, kind: str) -> None:
    random = make_random_model(kind, **_WITHOUT[kind])
    model = Transformer(random.config, random.canonical(), device=CPU, operations=EXACT)
    assert model.key_biases(10) == [None] * random.config.num_layers
