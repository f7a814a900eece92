"""The tensors of a GGUF file as the architectures want them.

Source: llama.cpp, `llama_model_rope_type` for who rotates how, `conversion/*.py` for who permutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

from .config import ModelConfig
from .errors import InvalidModel
from .tensor_rows import rows_of
from .weights import Weight, Weights

# Their files hold the rows of each query and key head in the order that rotates neighbours.
_INTERLEAVED = frozenset({"llama", "granite", "smollm3"})
_QUERY_OR_KEY = re.compile(r"blk\.\d+\.attn_([qk])\.(?:weight|bias)")
_FUSED_ATTENTION = re.compile(r"(blk\.\d+\.attn_)qkv(\.(?:weight|bias))")
_FUSED_GATE = re.compile(r"(blk\.\d+\.ffn_)up(\.weight)")
# The configuration has read these.
_FACTORS = frozenset({"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})


class GGUFConventions:
    """`Weights` over the tensors of a file: splits what is fused, reorders what is permuted."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        self._raw = raw
        self._config = config
        self._sources: dict[str, tuple[str, slice | None]] = {}
        for name in raw.names:
            if name not in _FACTORS:
                self._sources.update(self._parts(name))

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is, by its canonical name."""
        return self._sources.keys()

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` where there is none."""
        if name not in self._sources:
            raise InvalidModel(
                f"The model has no tensor {name!r}.",
                hint="Download it again, or use another conversion.",
            )
        source, part = self._sources[name]
        weight = self._raw.get(source)
        if part is not None:
            weight = rows_of(weight, part)
        match = _QUERY_OR_KEY.fullmatch(name)
        if match is None or self._config.architecture not in _INTERLEAVED:
            return weight
        return rows_of(weight, self._halves(match[1]))

    def _parts(self, name: str) -> dict[str, tuple[str, slice | None]]:
        config = self._config
        if match := _FUSED_ATTENTION.fullmatch(name):
            widths = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
            sizes = [heads * config.head_size for heads in widths]
            names = [f"{match[1]}{letter}{match[2]}" for letter in "qkv"]
        elif config.architecture == "phi3" and (match := _FUSED_GATE.fullmatch(name)):
            sizes = [config.intermediate_size] * 2
            names = [f"{match[1]}{part}{match[2]}" for part in ("gate", "up")]
        else:
            return {name: (name, None)}
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        return {
            part: (name, slice(start, start + size))
            for part, start, size in zip(names, starts, sizes, strict=True)
        }

    def _halves(self, letter: str) -> torch.Tensor:
        """Where the rows of both halves of every head are among rows that alternate them."""
        config = self._config
        heads = config.num_heads if letter == "q" else config.num_kv_heads
        rows = torch.arange(heads * config.head_size)
        return rows.view(heads, config.head_size // 2, 2).transpose(1, 2).flatten()
