"""Models in NF4 compute the same as transformers with bitsandbytes' dequantised values."""

from __future__ import annotations

import functools
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.models.weights.bitsandbytes_weights import BitsandbytesWeights
from ingle.models.weights.converted_weights import NF4Weights
from ingle.models.weights.hf_tensor_names import HFTensorNames
from ingle.models.weights.safetensors_weights import SafetensorsWeights


@functools.cache
def bitsandbytes() -> Any:
    """Import bitsandbytes in the first test that needs it, because that takes seconds."""
    return import_module("bitsandbytes")


safetensors: Any = import_module("safetensors.torch")


def quantized_checkpoint(module: Any) -> dict[str, torch.Tensor]:
    """Return the state of a model quantised by bitsandbytes, as transformers saves it."""
    tensors = dict(module.state_dict())
    for name, layer in module.named_modules():
        if not isinstance(layer, torch.nn.Linear) or name == "lm_head":
            continue
        small = bitsandbytes().nn.Linear4bit(
            layer.in_features, layer.out_features, bias=False, quant_type="nf4"
        )
        small.weight = bitsandbytes().nn.Params4bit(
            layer.weight.data.clone(), requires_grad=False, quant_type="nf4"
        )
        state = small.to("cpu").state_dict()
        tensors.update({f"{name}.{key}": value for key, value in state.items()})
        layer.weight.data = bitsandbytes().functional.dequantize_4bit(
            small.weight.data, small.weight.quant_state
        )
    return {name: tensor.clone() for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    "kind", ["qwen2", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("llama", "phi3"))]
)
def test_loaded_and_quantised_nf4_agree_with_transformers(
    kind: str, make_random_model: Any, compute_logits: Any, tokens: torch.Tensor, tmp_path: Path
) -> None:
    shape = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 4}
    model = make_random_model(kind, **shape)
    for name in ("plain", "quantised"):
        (tmp_path / name).mkdir()
    plain = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    safetensors.save_file(plain, tmp_path / "plain" / "model.safetensors")
    tensors = quantized_checkpoint(model.module)
    safetensors.save_file(tensors, tmp_path / "quantised" / "model.safetensors")
    expected = model.logits(tokens)

    checkpoint = BitsandbytesWeights(SafetensorsWeights(tmp_path / "quantised"))
    found = compute_logits(model.config, HFTensorNames(checkpoint, model.config), tokens)
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-4

    on_load = NF4Weights(SafetensorsWeights(tmp_path / "plain"))
    again = compute_logits(model.config, HFTensorNames(on_load, model.config), tokens)
    assert torch.equal(again, found)
