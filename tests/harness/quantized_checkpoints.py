"""Matrices as quantisers of safetensors store them, written from their specifications.

Each function draws codes, scales and zero points, and returns the tensors of one matrix by the ends
of their names, and its weights by the formula of the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

# Where AutoAWQ puts each of eight outputs in a word.
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True)
class StoredExample:
    """The tensors of a matrix by what their names end with, and its weights in float32."""

    tensors: Mapping[str, torch.Tensor]
    weights: torch.Tensor


@dataclass(frozen=True)
class Quantizer:
    """`settings` of `quantization_config`, and what stores a matrix (rows, columns)."""

    settings: Mapping[str, Any]
    store: Callable[[int, int, torch.Generator], StoredExample]


def _draw(
    rows: int, columns: int, group: int, bits: int, random: torch.Generator
) -> tuple[np.ndarray[Any, Any], torch.Tensor, np.ndarray[Any, Any]]:
    codes = torch.randint(0, 1 << bits, (rows, columns), generator=random).numpy()
    zeros = torch.randint(1, 1 << bits, (rows, columns // group), generator=random).numpy()
    scales = (torch.rand(rows, columns // group, generator=random) + 0.1) * 0.3 / 2**bits
    return codes, scales, zeros


def _weights(
    codes: np.ndarray[Any, Any],
    scales: torch.Tensor,
    zeros: np.ndarray[Any, Any],
    group_of: np.ndarray[Any, Any],
) -> torch.Tensor:
    exact = (codes - zeros[:, group_of]) * scales.double().numpy()[:, group_of]
    return torch.as_tensor(exact.astype(np.float32))


def _words(codes: np.ndarray[Any, Any], bits: int) -> torch.Tensor:
    """Pack along the last axis as one stream of bits, lowest first."""
    rows, count = codes.shape
    words = [0] * (rows * -(-count * bits // 32))
    width = len(words) // max(1, rows)
    for row in range(rows):
        stream = sum(int(code) << place * bits for place, code in enumerate(codes[row]))
        for word in range(width):
            words[row * width + word] = stream >> 32 * word & 0xFFFFFFFF
    return torch.as_tensor(np.asarray(words, np.uint32).view(np.int32).reshape(rows, width))


def awq(group: int = 32, *, gemv: bool = False) -> Quantizer:
    """Return AutoAWQ with four bits."""

    def store(rows: int, columns: int, random: torch.Generator) -> StoredExample:
        codes, scales, zeros = _draw(rows, columns, group, 4, random)
        scales = scales.half()
        weights = _weights(codes, scales, zeros, np.arange(columns) // group)
        if gemv:
            width = 4 * -(-columns // group // 32)
            padded = np.zeros((rows, width * 8), np.int64)
            padded[:, : zeros.shape[1]] = zeros
            wide = torch.zeros(rows, width * 8, dtype=torch.float16)
            wide[:, : zeros.shape[1]] = scales
            parts = _words(codes, 4), _words(padded, 4), wide
        else:
            shuffled = [
                each.T.reshape(len(each.T), rows // 8, 8)[..., _AWQ_ORDER].reshape(-1, rows)
                for each in (codes, zeros)
            ]
            parts = _words(shuffled[0], 4), _words(shuffled[1], 4), scales.T
        names = (".qweight", ".qzeros", ".scales")
        return StoredExample(dict(zip(names, parts, strict=True)), weights)

    settings = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True}
    return Quantizer({**settings, "version": "gemv" if gemv else "gemm"}, store)


def gptq(
    bits: int = 4,
    group: int = 32,
    *,
    act_order: bool = False,
    v2: bool = False,
    symmetric: bool = False,
) -> Quantizer:
    """Return AutoGPTQ, or GPTQModel's second version."""

    def store(rows: int, columns: int, random: torch.Generator) -> StoredExample:
        codes, scales, zeros = _draw(rows, columns, group, bits, random)
        scales = scales.half()
        group_of = np.arange(columns) // group
        if act_order:
            group_of = group_of[torch.randperm(columns, generator=random).numpy()]
        if symmetric:
            zeros = np.full_like(zeros, 1 << bits - 1)
        stored = zeros if v2 else zeros - 1
        tensors = {
            ".qweight": _words(codes, bits).T,
            ".qzeros": _words(stored.T, bits),
            ".scales": scales.T,
            ".g_idx": torch.as_tensor(group_of.astype(np.int32)),
        }
        return StoredExample(tensors, _weights(codes, scales, zeros, group_of))

    settings = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order}
    settings |= {"sym": symmetric}
    return Quantizer({**settings, "checkpoint_format": "gptq_v2" if v2 else "gptq"}, store)


def _compressed(
    kind: str, inputs: Mapping[str, object] | None = None, **weights: object
) -> Mapping[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": kind,
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }


def packed(bits: int = 4, group: int = 32, *, symmetric: bool = True) -> Quantizer:
    """Return `pack-quantized` of compressed-tensors, with scales in BF16."""

    def store(rows: int, columns: int, random: torch.Generator) -> StoredExample:
        codes, scales, zeros = _draw(rows, columns, group, bits, random)
        if symmetric:
            zeros = np.full_like(zeros, 1 << bits - 1)
        scales = scales.bfloat16()
        tensors = {
            ".weight_packed": _words(codes, bits),
            ".weight_scale": scales,
            ".weight_shape": torch.tensor([rows, columns]),
        }
        if not symmetric:
            tensors[".weight_zero_point"] = _words(zeros.T, bits).T
        return StoredExample(tensors, _weights(codes, scales, zeros, np.arange(columns) // group))

    weights: dict[str, Any] = {
        "num_bits": bits,
        "type": "int",
        "symmetric": symmetric,
        "strategy": "group",
    }
    return Quantizer(_compressed("pack-quantized", **weights, group_size=group), store)


def int8(dtype: torch.dtype = torch.bfloat16) -> Quantizer:
    """Return W8A8 of compressed-tensors: a scale a row, activations dynamic."""

    def store(rows: int, columns: int, random: torch.Generator) -> StoredExample:
        codes = torch.randint(-128, 128, (rows, columns), generator=random).to(torch.int8)
        scales = (torch.rand(rows, 1, generator=random) * 1e-3 + 1e-4).to(dtype)
        weights = (codes.double() * scales.double()).float()
        return StoredExample({".weight": codes, ".weight_scale": scales}, weights)

    return Quantizer(
        _compressed("int-quantized", num_bits=8, type="int", strategy="channel"), store
    )


def fp8(kind: str, *, inputs: bool = True) -> Quantizer:
    """Return FP8 with a scale for the `tensor` (static activations), a `channel` or a `block`.

    Without `inputs` only the weights are in FP8.
    """

    def store(rows: int, columns: int, random: torch.Generator) -> StoredExample:
        codes = torch.randn(rows, columns, generator=random).to(torch.float8_e4m3fn)
        if kind == "block":
            shape = (-(-rows // 128), -(-columns // 128))
            scales = torch.rand(shape, generator=random) * 0.1
            spread = scales.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :columns]
            tensors = {".weight": codes, ".weight_scale_inv": scales}
        elif kind == "channel":
            scales = spread = torch.rand(rows, 1, generator=random).bfloat16() * 0.1
            tensors = {".weight": codes, ".weight_scale": scales}
        else:
            scales = spread = torch.rand((), generator=random) * 0.1
            one = torch.tensor(0.5)
            tensors = {".weight": codes, ".weight_scale": scales, ".input_scale": one}
        return StoredExample(tensors, codes.float() * spread.float())

    if kind == "block":
        settings = {"quant_method": "fp8", "weight_block_size": [128, 128]}
        return Quantizer({**settings, "activation_scheme": "dynamic"}, store)
    if kind == "tensor":
        return Quantizer({"quant_method": "fp8", "activation_scheme": "static"}, store)
    floats = {"num_bits": 8, "type": "float"}
    tokens = {**floats, "dynamic": True, "strategy": "token"} if inputs else None
    return Quantizer(_compressed("float-quantized", tokens, **floats, strategy=kind), store)


def _fp4(rows: int, columns: int, random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return packed codes, the earlier in the low nibble, and their values."""
    codes = torch.randint(0, 16, (rows, columns), generator=random)
    values = torch.tensor(_E2M1)[codes & 7] * (1 - 2 * (codes >> 3))
    return (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8), values


def nvfp4(*, modelopt: bool = False) -> Quantizer:
    """Return NVFP4 of compressed-tensors, or of ModelOpt."""

    def store(rows: int, columns: int, random: torch.Generator) -> StoredExample:
        packed_codes, values = _fp4(rows, columns, random)
        scales = (torch.rand(rows, columns // 16, generator=random) * 8).to(torch.float8_e4m3fn)
        whole = torch.tensor([0.003 if modelopt else 300.0])
        exact = scales.float() * whole if modelopt else scales.float() / whole
        names = (
            (".weight", ".weight_scale", ".weight_scale_2")
            if modelopt
            else (".weight_packed", ".weight_scale", ".weight_global_scale")
        )
        parts = (packed_codes, scales, whole)
        stored: dict[str, torch.Tensor] = {}
        stored.update(zip(names, parts, strict=True))
        return StoredExample(stored, values * exact.repeat_interleave(16, 1))

    if modelopt:
        return Quantizer({"quant_method": "modelopt", "quant_algo": "NVFP4"}, store)
    kind = "nvfp4-pack-quantized"
    return Quantizer(_compressed(kind, num_bits=4, type="float", group_size=16), store)


def mxfp4() -> Quantizer:
    """Return MXFP4 of compressed-tensors."""

    def store(rows: int, columns: int, random: torch.Generator) -> StoredExample:
        packed_codes, values = _fp4(rows, columns, random)
        scales = torch.randint(115, 125, (rows, columns // 32), generator=random)
        tensors = {".weight_packed": packed_codes, ".weight_scale": scales.to(torch.uint8)}
        exact = torch.exp2(scales.float() - 127)
        return StoredExample(tensors, values * exact.repeat_interleave(32, 1))

    kind = "mxfp4-pack-quantized"
    return Quantizer(_compressed(kind, num_bits=4, type="float", group_size=32), store)


QUANTIZERS: Mapping[str, Quantizer] = {
    "awq": awq(),
    "awq, gemv": awq(64, gemv=True),
    "awq, groups of 128": awq(128),
    "gptq": gptq(),
    "gptq, act-order": gptq(group=64, act_order=True),
    "gptq, version 2": gptq(v2=True),
    "gptq, 2 bits": gptq(2),
    "gptq, 3 bits": gptq(3, 64, act_order=True),
    "gptq, 8 bits": gptq(8),
    "gptq, 8 bits, symmetric": gptq(8, symmetric=True),
    "packed": packed(),
    "packed, zero points": packed(symmetric=False),
    "packed, 8 bits": packed(8, 64),
    "int8": int8(),
    "int8, float scales": int8(torch.float32),
    "fp8, tensor": fp8("tensor"),
    "fp8, channel": fp8("channel"),
    "fp8, channel, weights only": fp8("channel", inputs=False),
    "fp8, block": fp8("block"),
    "nvfp4": nvfp4(),
    "nvfp4, modelopt": nvfp4(modelopt=True),
    "mxfp4": mxfp4(),
}


def quantize_folder(folder: Path, quantizer: Quantizer) -> None:
    """Give the linear layers of a folder's model, but its LM head, quantised random weights."""
    safetensors: Any = import_module("safetensors.torch")
    random = torch.Generator().manual_seed(3)
    for path in folder.glob("*.safetensors"):
        plain: dict[str, torch.Tensor] = safetensors.load_file(path)
        tensors: dict[str, torch.Tensor] = {}
        for name, tensor in plain.items():
            stem = name.removesuffix(".weight")
            if not stem.endswith("_proj"):
                tensors[name] = tensor
                continue
            rows, columns = tensor.shape
            example = quantizer.store(rows, columns, random)
            tensors |= {stem + end: part.contiguous() for end, part in example.tensors.items()}
        safetensors.save_file(tensors, path)
    index = {
        name: path.name
        for path in folder.glob("*.safetensors")
        for name in safetensors.load_file(path)
    }
    text = json.dumps({"metadata": {}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = quantizer.settings
    (folder / "config.json").write_text(json.dumps(config))
