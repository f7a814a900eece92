"""Random LoRA adapters as PEFT saves them, and models with adapters merged into their weights."""

from __future__ import annotations

import json
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ingle.models.gguf.gguf_header import read_header
from ingle.models.gguf.gguf_writer import PlannedTensor, encode_header, encode_pair, padded

RANK, ALPHA = 4, 12.0


def write_adapter(folder: Path, base: Path, seed: int, **settings: object) -> Path:
    """Write an adapter of every linear layer of the model in `base`; return its folder."""
    safetensors: Any = import_module("safetensors.torch")
    folder.mkdir(parents=True)
    random = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for module, weight in _linear_layers(base).items():
        rows, columns = weight.shape
        name = f"base_model.model.{module}"
        tensors[f"{name}.lora_A.weight"] = torch.randn(RANK, columns, generator=random) * 0.3
        tensors[f"{name}.lora_B.weight"] = torch.randn(rows, RANK, generator=random) * 0.1
    safetensors.save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", **settings}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def write_gguf_adapter(path: Path, base: Path, seed: int) -> Path:
    """Write an adapter of every linear layer of a GGUF model as a GGUF file; return it."""
    header = read_header(base)
    random = torch.Generator().manual_seed(seed)
    planned: list[PlannedTensor] = []
    data: list[bytes] = []
    for tensor in header.tensors:
        if (
            re.search(r"\.(attn_[qkv]|attn_output|ffn_(gate|up|down))\.weight$", tensor.name)
            is None
        ):
            continue
        inputs, outputs = tensor.shape
        for half, rows, columns in (("a", RANK, inputs), ("b", outputs, RANK)):
            planned.append(PlannedTensor(f"{tensor.name}.lora_{half}", (columns, rows), "F32"))
            matrix = torch.randn(rows, columns, generator=random) * 0.05
            data.append(matrix.numpy().tobytes().ljust(padded(4 * rows * columns), b"\0"))
    pairs = [
        encode_pair("general.type", "adapter"),
        encode_pair("general.architecture", header.architecture),
        encode_pair("adapter.type", "lora"),
        encode_pair("adapter.lora.alpha", ALPHA),
    ]
    path.write_bytes(b"".join((encode_header(pairs, planned), *data)))
    return path


def merge_adapter(folder: Path, base: Path, adapter: Path) -> Path:
    """Write the model with the adapter's products in its weights, in F32; return its folder."""
    safetensors: Any = import_module("safetensors.torch")
    shutil.copytree(base, folder)
    matrices: dict[str, torch.Tensor] = safetensors.load_file(adapter / "adapter_model.safetensors")
    for path in folder.glob("*.safetensors"):
        tensors: dict[str, torch.Tensor] = safetensors.load_file(path)
        for name, weight in tensors.items():
            module = f"base_model.model.{name.removesuffix('.weight')}"
            tensors[name] = weight.float()
            if f"{module}.lora_A.weight" in matrices:
                up, down = matrices[f"{module}.lora_B.weight"], matrices[f"{module}.lora_A.weight"]
                tensors[name] += (up.double() @ down.double() * (ALPHA / RANK)).float()
        safetensors.save_file(tensors, path)
    return folder


def _linear_layers(base: Path) -> dict[str, torch.Tensor]:
    safetensors: Any = import_module("safetensors.torch")
    return {
        name.removesuffix(".weight"): tensor
        for path in sorted(base.glob("*.safetensors"))
        for name, tensor in safetensors.load_file(path).items()
        if name.endswith("_proj.weight")
    }
