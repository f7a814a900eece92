"""The order of the rows of queries and keys in GGUF files that alternate the rotated halves.

Source: llama.cpp, `LlamaModel.permute` in `conversion/llama.py`.
"""

from __future__ import annotations

import re

import numpy as np

from .model_config import ModelConfig

_QUERY_OR_KEY = re.compile(r"blk\.\d+\.attn_(q|k|q_b|kv_a_mqa)\.(?:weight|bias)")


def interleaved_rows(name: str, config: ModelConfig) -> list[int] | None:
    """The index in the file of each row of a query or key tensor; None for other tensors."""
    match = _QUERY_OR_KEY.fullmatch(name)
    if match is None:
        return None
    if (latent := config.latent) is not None:
        of_keys = match[1] == "kv_a_mqa"
        plain = latent.rank if of_keys else latent.key_size
        return _with_rotated_end(1 if of_keys else config.num_heads, plain, latent.rope_size)
    heads = config.num_heads if match[1] == "q" else config.num_kv_heads
    ropes = (layer.rope for layer in config.layers if layer.rope is not None)
    size = next((rope.size for rope in ropes), config.head_size)
    rows = np.arange(heads * config.head_size).reshape(heads, config.head_size)
    halves = rows[:, :size].reshape(heads, size // 2, 2).transpose(0, 2, 1).reshape(heads, size)
    return np.concatenate((halves, rows[:, size:]), 1).reshape(-1).tolist()


def _with_rotated_end(heads: int, plain: int, size: int) -> list[int]:
    """The rows of heads with `plain` elements, which stay in their order, before rotated ones."""
    rows = np.arange(heads * (plain + size)).reshape(heads, plain + size)
    halves = rows[:, plain:].reshape(heads, size // 2, 2).transpose(0, 2, 1)
    return np.concatenate((rows[:, :plain], halves.reshape(heads, size)), 1).reshape(-1).tolist()
