"""The shapes that predictions are made for are those of the models."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from gpu.predict_hybrid import HYBRIDS, launches, parameters, weights_by_type


@pytest.mark.parametrize(
    ("model", "billions", "of_a_token"), [(HYBRIDS[0], 26.9, 25.6), (HYBRIDS[1], 34.7, 2.95)]
)
def test_hybrids_have_the_weights_of_their_names(
    model: Any, billions: float, of_a_token: float
) -> None:
    assert parameters(model) / 1e9 == pytest.approx(billions, abs=0.05)
    assert weights_by_type(model).total() / 1e9 == pytest.approx(of_a_token, abs=0.05)


def test_mixture_has_the_defaults_of_transformers() -> None:
    transformers: Any = import_module("transformers")
    config = transformers.AutoConfig.for_model("qwen3_5_moe_text")
    model = HYBRIDS[1]
    assert model[1:6] == (
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.head_dim,
    )
    assert model[7:] == (
        config.moe_intermediate_size,
        config.vocab_size,
        config.num_experts,
        config.num_experts_per_tok,
    )
    assert config.shared_expert_intermediate_size == model.width
    assert model.nets == config.layer_types.count("linear_attention")
    net = model.net
    assert (net.key_heads, net.value_heads, net.key_size, net.value_size, net.kernel) == (
        config.linear_num_key_heads,
        config.linear_num_value_heads,
        config.linear_key_head_dim,
        config.linear_value_head_dim,
        config.linear_conv_kernel_dim,
    )
    assert launches(model) == (597, 340)
