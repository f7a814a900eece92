"""Writes an adapter that PEFT saved as the GGUF file that llama.cpp reads.

Source: llama.cpp, `convert_lora_to_gguf.py`. Imports no torch, so that it runs in the daemon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config.head_rows import interleaved_rows
from ..config.model_config import ModelConfig
from ..errors import UnsupportedModel
from ..families.family_registry import find_family
from ..gguf.gguf_writer import PlannedTensor, encode_header, encode_pair, padded
from ..safetensors.safetensors_header import StoredTensor
from .adapter_settings import AdapterSettings
from .gguf_adapter import GGUFAdapterSettings

_OF_A_LAYER = re.compile(r"(?:\w+\.)*layers\.(\d{1,9})\.(.+)")
_LM_HEAD = re.compile(r"(?:\w+\.)*lm_head")
_STORED: Mapping[str, type[np.generic]] = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
}
_Matrix = NDArray[Any]


def write_gguf_adapter(source: AdapterSettings, config: ModelConfig, target: Path) -> None:
    """Write `target`, with the values of `source` as they are where one scale suits all modules.

    Raises `UnsupportedModel` for modules and types that have no place in such a file.
    """
    alpha = source.scale(first := min(source.modules), rank := source.rank(first)) * rank
    planned: list[PlannedTensor] = []
    parts: list[bytes] = []
    for name, matrix, kind in _matrices(source, config, alpha):
        planned.append(PlannedTensor(name, matrix.shape[::-1], kind))
        raw = np.ascontiguousarray(matrix).tobytes()
        parts.append(raw.ljust(padded(len(raw)), b"\0"))
    pairs = [
        encode_pair("general.type", "adapter"),
        encode_pair("general.architecture", config.architecture),
        encode_pair("adapter.type", "lora"),
        encode_pair("adapter.lora.alpha", float(alpha)),
    ]
    target.write_bytes(b"".join((encode_header(pairs, planned), *parts)))
    GGUFAdapterSettings(target)


def _matrices(
    source: AdapterSettings, config: ModelConfig, alpha: float
) -> Iterator[tuple[str, _Matrix, str]]:
    """Each tensor's name in GGUF, its values, and their type."""
    for module in sorted(source.modules):
        stem = _gguf_name(module, config, source)
        rank = source.rank(module)
        path, stored = source.tensors[source.down(module)]
        yield f"{stem}.weight.lora_a", _read(path, stored), stored.dtype
        path, stored = source.tensors[source.up(module)]
        up, kind = _read(path, stored), stored.dtype
        factor = source.scale(module, rank) * rank / alpha
        if abs(factor - 1) > 1e-6:
            floats = as_float32(up.tobytes(), kind).reshape(up.shape)
            up, kind = floats * np.float32(factor), "F32"
        if find_family(config.architecture).gguf_interleaves_heads:
            order = interleaved_rows(f"{stem}.weight", config)
            if order is not None and up.shape[0] == len(order):  # else it is found not to fit
                up = up[np.argsort(order)]
        yield f"{stem}.weight.lora_b", up, kind


def _gguf_name(module: str, config: ModelConfig, source: AdapterSettings) -> str:
    family = find_family(config.architecture)
    names = dict(family.hf_layer_names)
    if family.gguf_fuses_attention:
        names["self_attn.qkv_proj"] = "attn_qkv"
    if family.gguf_fuses_gate:
        names["mlp.gate_up_proj"] = "ffn_up"
    theirs = {ours: their for their, ours in family.gguf_layer_names.items()}
    if _LM_HEAD.fullmatch(module):
        return "output"
    match = _OF_A_LAYER.fullmatch(module)
    found = names.get(match[2]) if match else None
    if match is None or found is None or family.hf_parts(f"{match[2]}.weight", config) is not None:
        raise UnsupportedModel(
            f"{source.folder} changes {module!r}, which has no place of its own in a GGUF model.",
            hint="Use it with the model's safetensors and ingle's own engine.",
        )
    return f"blk.{match[1]}.{theirs.get(found, found)}"


def as_float32(raw: bytes, kind: str) -> NDArray[np.float32]:
    """The values of a tensor in F32, F16 or BF16."""
    if kind == "BF16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, _STORED[kind]).astype(np.float32)


def _read(path: Path, tensor: StoredTensor) -> _Matrix:
    """A tensor's values, bfloat16 as its bits."""
    dtype = _STORED.get(tensor.dtype)
    if dtype is None:
        raise UnsupportedModel(
            f"{path} stores {tensor.name!r} as {tensor.dtype}.", hint="Save it in F32 or F16."
        )
    with path.open("rb") as file:
        file.seek(tensor.offset)
        return np.frombuffer(file.read(tensor.bytes), dtype).reshape(tensor.shape)
