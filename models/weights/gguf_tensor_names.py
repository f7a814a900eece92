"""The tensors of a GGUF file, split and reordered as the layers need them.

Source: llama.cpp, `llama_model_rope_type` for the kind of RoPE, `conversion/*.py` for the order
of rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

from ..config.model_config import ModelConfig
from ..errors import InvalidModel
from ..families.family_registry import find_family
from .tensor_part import TensorPart, rows_of, split_tensor
from .weights import Weight, Weights

_QUERY_OR_KEY = re.compile(r"blk\.\d+\.attn_([qk])\.(?:weight|bias)")
_FUSED_ATTENTION = re.compile(r"(blk\.\d+\.attn_)qkv(\.(?:weight|bias))")
_FUSED_GATE = re.compile(r"(blk\.\d+\.ffn_)up(\.weight)")
# Read with the configuration.
_FACTORS = frozenset({"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})


class GGUFTensorNames:
    """`Weights` over the tensors of a file: splits fused ones, undoes the interleaving of heads."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        self._raw = raw
        self._config = config
        self._fuses_gate = find_family(config.architecture).gguf_fuses_gate
        self._parts: dict[str, TensorPart] = {}
        for name in raw.names:
            if name not in _FACTORS:
                self._parts.update(self._named_parts(name))

    @property
    def names(self) -> Iterable[str]:
        """The canonical name of every tensor."""
        return self._parts.keys()

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` if there is none of this name."""
        if name not in self._parts:
            raise InvalidModel(
                f"The model has no tensor {name!r}.",
                hint="Download it again, or use another conversion.",
            )
        weight = self._parts[name].read(self._raw)
        order = _halves(name, self._config)
        # A wrong shape is reported by `Parameters`, which knows the right one.
        if order is None or weight.shape[:1] != order.shape:
            return weight
        return rows_of(weight, order)

    def _named_parts(self, name: str) -> dict[str, TensorPart]:
        config = self._config
        if match := _FUSED_ATTENTION.fullmatch(name):
            heads = {"q": config.num_heads, "k": config.num_kv_heads, "v": config.num_kv_heads}
            sizes = {
                f"{match[1]}{letter}{match[2]}": count * config.head_size
                for letter, count in heads.items()
            }
            return split_tensor(name, sizes)
        if self._fuses_gate and (match := _FUSED_GATE.fullmatch(name)):
            halves = [f"{match[1]}{half}{match[2]}" for half in ("gate", "up")]
            return split_tensor(name, dict.fromkeys(halves, config.intermediate_size))
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
