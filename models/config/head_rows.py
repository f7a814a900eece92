"""The order of the rows of queries and keys in GGUF files that alternate the rotated halves.

Source: llama.cpp, `LlamaModel.permute` in `conversion/llama.py`.
"""

from __future__ import annotations

import re

import numpy as np

from .model_config import ModelConfig

_QUERY_OR_KEY = re.compile(r"blk\.\d+\.attn_([qk])\.(?:weight|bias)")


def interleaved_rows(name: str, config: ModelConfig) -> list[int] | None:
    """The index in the file of each row of a query or key tensor; None for other tensors."""
    match = _QUERY_OR_KEY.fullmatch(name)
    if match is None:
        return None
    heads = config.num_heads if match[1] == "q" else config.num_kv_heads
    ropes = (layer.rope for layer in config.layers if layer.rope is not None)
    size = next((rope.size for rope in ropes), config.head_size)
    rows = np.arange(heads * config.head_size).reshape(heads, config.head_size)
    halves = rows[:, :size].reshape(heads, size // 2, 2).transpose(0, 2, 1).reshape(heads, size)
    return np.concatenate((halves, rows[:, size:]), 1).reshape(-1).tolist()
