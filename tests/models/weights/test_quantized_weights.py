"""Matrices of quantised checkpoints against the formulas of their formats, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.kernels.formats.dequantize import dequantize
from ingle.kernels.formats.weight import FP8Tensor, QuantizedTensor
from ingle.models.errors import InvalidModel
from ingle.models.safetensors.quantized.quantization_config import read_quantization
from ingle.models.safetensors.quantized.stored_matrices import StoredMatrices, find_matrices
from ingle.models.safetensors.safetensors_index import find_tensors
from ingle.models.weights.quantized_weights import QuantizedWeights
from ingle.models.weights.safetensors_weights import SafetensorsWeights
from tests.harness.quantized_checkpoints import QUANTIZERS, Quantizer, awq, fp8, gptq, packed

safetensors: Any = import_module("safetensors.torch")
LAYER = "model.layers.0.mlp.up_proj"
NAME = f"{LAYER}.weight"
# Of formats that the engine computes with; all others become floats.
PACKED = {
    "awq": "G4_32",
    "awq, gemv": "G4_64",
    "awq, groups of 128": "G4_128",
    "gptq": "G4_32",
    "gptq, act-order": "G4_64",
    "gptq, version 2": "G4_32",
    "gptq, 2 bits": "G4_32",
    "gptq, 3 bits": "G4_64",
    "gptq, 8 bits, symmetric": "Q8_0",
    "packed": "G4_32",
    "packed, zero points": "G4_32",
    "packed, 8 bits": "Q8_0",
    "int8": "Q8_0",
}
# What has a scale in those whose products round inputs; blocks of 128 need 512 columns for that.
ROUNDED = {"fp8, tensor": "tensor", "fp8, channel": "row"}


def write(
    folder: Path, quantizer: Quantizer, rows: int, columns: int
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Write one quantised matrix, and one that is not; return all tensors, and its weights."""
    example = quantizer.store(rows, columns, torch.Generator().manual_seed(rows))
    tensors = {LAYER + end: tensor.contiguous() for end, tensor in example.tensors.items()}
    tensors["lm_head.weight"] = torch.ones(4, 8)
    safetensors.save_file(tensors, folder / "model.safetensors")
    return tensors, example.weights


def read(folder: Path, settings: object) -> StoredMatrices:
    declared = read_quantization(folder, {"quantization_config": settings})
    assert declared is not None
    stored = {name: tensor for name, (_, tensor) in find_tensors(folder).items()}
    return find_matrices(folder.name, declared, stored)


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_weights_are_those_of_the_formula(tmp_path: Path, kind: str) -> None:
    quantizer = QUANTIZERS[kind]
    _, expected = write(tmp_path, quantizer, 96, 256)
    matrices = read(tmp_path, quantizer.settings)
    weights = QuantizedWeights(SafetensorsWeights(tmp_path), matrices)
    assert sorted(weights.names) == ["lm_head.weight", NAME]
    assert weights.get("lm_head.weight").shape == (4, 8)
    found, matrix = weights.get(NAME), matrices.by_name[NAME]
    assert matrix.parameters == 96 * 256
    if kind in PACKED:
        assert isinstance(found, QuantizedTensor)
        assert found.type == PACKED[kind]
        assert (found.order is not None) == ("act-order" in kind or kind == "gptq, 3 bits")
        assert matrix.held_bytes == found.nbytes
        found = dequantize(found)
    else:
        assert matrix.held_bytes == 2 * 96 * 256
    if kind in ROUNDED:
        assert isinstance(found, FP8Tensor)
        assert found.scaling == ROUNDED[kind]
        assert matrix.fp8_bytes == found.nbytes
        found = dequantize(found)
    else:
        assert matrix.fp8_bytes == matrix.held_bytes
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, expected)


def test_fp8_inputs_are_rounded_as_the_settings_say(tmp_path: Path) -> None:
    """Static with the stored scale, dynamic without one, not at all where they do not say so."""
    tensor, channel, block = fp8("tensor"), fp8("channel"), fp8("block")
    dynamic = {**tensor.settings, "activation_scheme": "dynamic"}
    cases: list[tuple[Quantizer, Mapping[str, Any], int, float | None, str | None]] = [
        (tensor, tensor.settings, 96, 0.5, "tensor"),
        (tensor, dynamic, 96, None, "tensor"),
        (tensor, {"quant_method": "fp8"}, 96, None, None),
        (tensor, {"quant_method": "modelopt", "quant_algo": "FP8"}, 96, 0.5, "tensor"),
        (tensor, {"quant_method": "fbgemm_fp8"}, 96, None, None),
        (channel, {**tensor.settings}, 96, None, None),  # static, but no scale is stored
        (channel, channel.settings, 100, None, None),  # no product has such a number of outputs
        (block, block.settings, 96, None, "block"),
    ]
    for quantizer, settings, rows, scale, scaling in cases:
        _, expected = write(tmp_path, quantizer, rows, 512)
        matrices = read(tmp_path, settings)
        found = QuantizedWeights(SafetensorsWeights(tmp_path), matrices).get(NAME)
        if scaling is None:
            assert isinstance(found, torch.Tensor), settings
        else:
            assert isinstance(found, FP8Tensor), settings
            assert found.scaling == scaling
            assert (found.input_scale is None) == (scale is None)
            assert found.input_scale is None or float(found.input_scale) == scale
            found = dequantize(found)
        assert torch.equal(found, expected)


def test_other_groups_than_the_kernels_have(tmp_path: Path) -> None:
    """One scale a row, groups of 256 and of 16, and rows that are no whole groups of 32."""
    for group, columns, kind in ((256, 256, "G4_128"), (96, 192, "G4_32"), (16, 64, None)):
        quantizer = packed(4, group)
        _, expected = write(tmp_path, quantizer, 32, columns)
        matrices = read(tmp_path, quantizer.settings)
        found = QuantizedWeights(SafetensorsWeights(tmp_path), matrices).get(NAME)
        if kind is None:
            assert isinstance(found, torch.Tensor)
        else:
            assert isinstance(found, QuantizedTensor)
            assert found.type == kind
            found = dequantize(found)
        assert torch.equal(found, expected)


def test_a_zero_point_of_zero_in_the_first_version(tmp_path: Path) -> None:
    """It is stored as 15, which AutoGPTQ's readers make 0 again, not 16."""
    tensors, _ = write(tmp_path, gptq(), 32, 64)
    tensors[f"{LAYER}.qzeros"] = torch.full_like(tensors[f"{LAYER}.qzeros"], -1)
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    matrices = read(tmp_path, gptq().settings)
    found = QuantizedWeights(SafetensorsWeights(tmp_path), matrices).get(NAME)
    assert isinstance(found, QuantizedTensor)
    assert bool((dequantize(found) >= 0).all())


def test_groups_of_different_sizes_are_dequantised(tmp_path: Path) -> None:
    tensors, _ = write(tmp_path, gptq(), 32, 64)
    group_of = torch.zeros(64, dtype=torch.int32)
    group_of[5] = 1
    tensors[f"{LAYER}.g_idx"] = group_of
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    matrices = read(tmp_path, gptq().settings)
    weights = QuantizedWeights(SafetensorsWeights(tmp_path), matrices)
    found = weights.get(NAME)
    assert isinstance(found, torch.Tensor)
    scales = tensors[f"{LAYER}.scales"].float()
    steps = found / scales[group_of.long()].T
    assert torch.allclose(steps, steps.round(), atol=1e-4)


Broken = tuple[Quantizer, Mapping[str, Any], Mapping[str, torch.Tensor | None], str]
BROKEN: Mapping[str, Broken] = {
    "other bits": (gptq(8), {**gptq(4).settings}, {}, "8 bits, where the settings say 4"),
    "other groups": (gptq(), {**gptq().settings, "group_size": 64}, {}, "in 8 groups, where"),
    "other layout": (awq(), {**awq().settings, "version": "gemv"}, {}, "of the shape"),
    "no scales": (gptq(), gptq().settings, {".scales": None}, "without its scales"),
    "other groups of words": (
        packed(),
        {**packed(8).settings},
        {},
        "as 32 words and 8 scales a row, as no settings ask for",
    ),
    "groups that there are not": (
        gptq(),
        gptq().settings,
        {".g_idx": torch.full((256,), 9, dtype=torch.int32)},
        "in other groups than its 8",
    ),
    "another shape": (
        packed(),
        packed().settings,
        {".weight_shape": torch.tensor([96, 255])},
        "a stated shape that is not 96 by 256",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_contradictions_are_reported(tmp_path: Path, kind: str) -> None:
    quantizer, settings, changes, message = BROKEN[kind]
    tensors, _ = write(tmp_path, quantizer, 96, 256)
    for end, tensor in changes.items():
        if tensor is None:
            del tensors[LAYER + end]
        else:
            tensors[LAYER + end] = tensor
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(InvalidModel, match=message) as failed:
        QuantizedWeights(SafetensorsWeights(tmp_path), read(tmp_path, settings)).get(NAME)
    assert NAME in failed.value.message
    assert failed.value.hint is not None
    assert "Download it again" in failed.value.hint
