"""The tensors of a GGUF file, split and reordered as the layers need them.

Source: llama.cpp, `llama_model_rope_type` for the kind of RoPE, `conversion/*.py` for the order
of rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from ..config.model_config import ModelConfig
from ..families.family_registry import find_family
from .tensor_part import SplitWeights, TensorPart, rows_of, split_tensor
from .weights import Weight

_QUERY_OR_KEY = re.compile(r"blk\.\d+\.attn_([qk])\.(?:weight|bias)")
_FUSED_ATTENTION = re.compile(r"(blk\.\d+\.attn_)qkv(\.(?:weight|bias))")
_FUSED_GATE = re.compile(r"(blk\.\d+\.ffn_)up(\.weight)")
# Read with the configuration.
_FACTORS = frozenset({"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})


class GGUFTensorNames(SplitWeights):
    """`Weights` over the tensors of a file: splits fused ones, undoes the interleaving of heads."""

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` if there is none of this name."""
        weight = self._read(name, "Download it again, or use another conversion.")
        order = _halves(name, self._config)
        # A wrong shape is reported by `Parameters`, which knows the right one.
        if order is None or weight.shape[:1] != order.shape:
            return weight
        return rows_of(weight, order)

    def _named_parts(self, name: str) -> Mapping[str, TensorPart]:
        if name in _FACTORS:
            return {}
        if match := _FUSED_ATTENTION.fullmatch(name):
            rows = self._attention_rows()
            sizes = {f"{match[1]}{letter}{match[2]}": rows[letter] for letter in rows}
            return split_tensor(name, sizes)
        if self._family.gguf_fuses_gate and (match := _FUSED_GATE.fullmatch(name)):
            halves = [f"{match[1]}{half}{match[2]}" for half in ("gate", "up")]
            return split_tensor(name, dict.fromkeys(halves, self._config.intermediate_size))
        return {name: TensorPart(name)}


def permute_for_gguf(name: str, weight: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """A tensor of the layers, with its rows in the order that the family's GGUF files have."""
    order = _halves(name, config)
    return weight if order is None else weight[torch.argsort(order)]


def _halves(name: str, config: ModelConfig) -> torch.Tensor | None:
    """The index of each row of a query or key tensor in its file; None if the order is the same."""
    match = _QUERY_OR_KEY.fullmatch(name)
    if match is None or not find_family(config.architecture).gguf_interleaves_heads:
        return None
    heads = config.num_heads if match[1] == "q" else config.num_kv_heads
    rows = torch.arange(heads * config.head_size)
    return rows.view(heads, config.head_size // 2, 2).transpose(1, 2).flatten()
