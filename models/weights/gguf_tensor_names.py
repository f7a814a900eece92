"""The tensors of a GGUF file as the architectures want them.

Source: llama.cpp, `llama_model_rope_type` for who rotates how, `conversion/*.py` for who permutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

from ..config.model_config import ModelConfig
from ..errors import InvalidModel
from .tensor_part import TensorPart, rows_of, split_tensor
from .weights import Weight, Weights

# Their files hold the rows of each query and key head in the order that rotates neighbours.
_INTERLEAVED = frozenset({"llama", "granite", "smollm3"})
_QUERY_OR_KEY = re.compile(r"blk\.\d+\.attn_([qk])\.(?:weight|bias)")
_FUSED_ATTENTION = re.compile(r"(blk\.\d+\.attn_)qkv(\.(?:weight|bias))")
_FUSED_GATE = re.compile(r"(blk\.\d+\.ffn_)up(\.weight)")
# The configuration has read these.
_FACTORS = frozenset({"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})


class GGUFTensorNames:
    """`Weights` over the tensors of a file: splits what is fused, reorders what is permuted."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        self._raw = raw
        self._config = config
        self._parts: dict[str, TensorPart] = {}
        for name in raw.names:
            if name not in _FACTORS:
                self._parts.update(self._named_parts(name))

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is, by its canonical name."""
        return self._parts.keys()

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` where there is none."""
        if name not in self._parts:
            raise InvalidModel(
                f"The model has no tensor {name!r}.",
                hint="Download it again, or use another conversion.",
            )
        weight = self._parts[name].read(self._raw)
        order = _halves(name, self._config)
        # Whoever takes a tensor of the wrong shape says so.
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
        if config.architecture == "phi3" and (match := _FUSED_GATE.fullmatch(name)):
            halves = [f"{match[1]}{half}{match[2]}" for half in ("gate", "up")]
            return split_tensor(name, dict.fromkeys(halves, config.intermediate_size))
        return {name: TensorPart(name)}


def permute_for_gguf(name: str, weight: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """A tensor as the architectures want it, with its rows in the order that files have."""
    order = _halves(name, config)
    return weight if order is None else weight[torch.argsort(order)]


def _halves(name: str, config: ModelConfig) -> torch.Tensor | None:
    """Where the rows of both halves of every head are among rows that alternate them."""
    match = _QUERY_OR_KEY.fullmatch(name)
    if match is None or config.architecture not in _INTERLEAVED:
        return None
    heads = config.num_heads if match[1] == "q" else config.num_kv_heads
    rows = torch.arange(heads * config.head_size)
    return rows.view(heads, config.head_size // 2, 2).transpose(1, 2).flatten()
