"""Quantised checkpoints compute the same as transformers with the weights of their formulas."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.models.safetensors.quantized.quantization_config import read_quantization
from ingle.models.safetensors.quantized.stored_matrices import find_matrices
from ingle.models.safetensors.safetensors_index import find_tensors
from ingle.models.weights.hf_tensor_names import HFTensorNames
from ingle.models.weights.quantized_weights import QuantizedWeights
from ingle.models.weights.safetensors_weights import SafetensorsWeights
from tests.harness.quantized_checkpoints import QUANTIZERS, Quantizer

safetensors: Any = import_module("safetensors.torch")
SHAPE = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
QUICK = ("awq", "gptq, act-order", "fp8, block", "int8")
CASES = [
    *(
        pytest.param("llama", kind, marks=() if kind in QUICK else pytest.mark.slow)
        for kind in QUANTIZERS
    ),
    ("phi3", "packed, zero points"),
    ("phi3", "fp8, channel"),
]


def open_weights(folder: Path, model: Any, settings: object) -> HFTensorNames:
    declared = read_quantization(folder, {"quantization_config": settings})
    assert declared is not None
    stored = {name: tensor for name, (_, tensor) in find_tensors(folder).items()}
    matrices = find_matrices("tiny", declared, stored)
    return HFTensorNames(QuantizedWeights(SafetensorsWeights(folder), matrices), model.config)


def quantize(module: Any, quantizer: Quantizer) -> dict[str, torch.Tensor]:
    """Give the linear layers but the LM head quantised weights; return the checkpoint."""
    random = torch.Generator().manual_seed(3)
    tensors = dict(module.state_dict())
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            example = quantizer.store(layer.out_features, layer.in_features, random)
            layer.weight.data = example.weights
            del tensors[f"{name}.weight"]
            tensors |= {name + end: tensor for end, tensor in example.tensors.items()}
    return {name: tensor.clone().contiguous() for name, tensor in tensors.items()}


def test_experts_in_mxfp4_agree_with_transformers(
    make_random_model: Any, compute_logits: Any, tokens: torch.Tensor, tmp_path: Path
) -> None:
    """As gpt-oss is published: blocks of all experts, by transformers' own conversion."""
    library: Any = import_module("transformers.integrations.mxfp4")
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_local_experts": 4, "head_dim": 16}
    model = make_random_model("gpt_oss", **shape, num_experts_per_tok=2)
    random, tensors = torch.Generator().manual_seed(5), dict(model.module.state_dict())
    for name, parameter in model.module.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        experts, inputs, outputs = parameter.shape
        sizes = experts, outputs, inputs // 32
        blocks = torch.randint(0, 256, (*sizes, 16), generator=random, dtype=torch.uint8)
        scales = torch.randint(118, 122, sizes, generator=random, dtype=torch.uint8)
        parameter.data = library.convert_moe_packed_tensors(blocks, scales).float()
        del tensors[name]
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    stored = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    safetensors.save_file(stored, tmp_path / "model.safetensors")
    found = compute_logits(model.config, open_weights(tmp_path, model, MXFP4), tokens)
    expected = model.logits(tokens)
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-4


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_logits_agree_with_transformers(
    family: str, kind: str, make_random_model: Any, compute_logits: Any, tokens: torch.Tensor,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Phi-3's fused layers are quantised as one."""
    quantizer, model = QUANTIZERS[kind], make_random_model(family, **SHAPE)
    safetensors.save_file(quantize(model.module, quantizer), tmp_path / "model.safetensors")
    weights = open_weights(tmp_path, model, quantizer.settings)
    found = compute_logits(model.config, weights, tokens)
    expected = model.logits(tokens)
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-4
