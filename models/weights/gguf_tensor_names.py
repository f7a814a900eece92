"""The tensors of a GGUF file, split and reordered as the layers need them.

Source: llama.cpp, `llama_model_rope_type` for the kind of RoPE, `conversion/*.py` for the order
of rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from ..config.head_rows import interleaved_rows
from ..config.model_config import ModelConfig
from ..config.state_space_fields import state_space_of
from ..families.family_registry import find_family
from .tensor_part import SplitWeights, TensorPart, split_latent, split_tensor
from .weights import Weight

_OF_A_LAYER = re.compile(r"(blk\.(\d{1,9})\.)([\w.]+)(\.(?:weight|bias))")
_FUSED_ATTENTION = re.compile(r"(blk\.(\d{1,9})\.attn_)qkv(\.(?:weight|bias))")
_FUSED_EXPERTS = re.compile(r"(blk\.(\d{1,9})\.ffn_)gate_up_exps(\.weight)")
_STREAMS = re.compile(r"(altup_(?:proj|unembd_proj))\.weight")
_OF_LATENTS = re.compile(r"(blk\.\d+)\.attn_kv_b\.weight")
_FUSED_GATE = re.compile(r"(blk\.\d+\.ffn_)up(\.weight)")
_OUTPUT_NORM = "output_norm.weight"
_NORM = ".ssm_norm.weight"
_FLAT = (".ssm_a", ".ssm_d", _NORM)
# Read with the configuration.
_FACTORS = frozenset({"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})


class GGUFTensorNames(SplitWeights):
    """`Weights` over the tensors of a file: splits fused ones, undoes the interleaving of heads."""

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` if there is none of this name."""
        hint = "Download it again, or use another conversion."
        weight = self._read(name, hint, interleaved=self._family.gguf_interleaves_heads)
        if isinstance(weight, torch.Tensor) and name.endswith(_FLAT):
            return weight.flatten()
        return weight

    def _named_parts(self, name: str) -> Mapping[str, TensorPart]:
        if name in _FACTORS:
            return {}
        if name == f"{self._family.gguf_output_norm}.weight":
            return {_OUTPUT_NORM: TensorPart(name)}
        match = _FUSED_ATTENTION.fullmatch(name)
        if match and int(match[2]) in self._config.key_layers:
            rows = self._attention_rows()
            sizes = {f"{match[1]}{letter}{match[3]}": rows[letter] for letter in rows}
            return split_tensor(name, sizes)
        if (match := _STREAMS.fullmatch(name)) and self._config.streams is not None:
            each = range(self._config.streams.count - 1)
            sizes = {f"{match[1]}.{i}.weight": self._config.hidden_size for i in each}
            return split_tensor(name, sizes)
        match = _OF_A_LAYER.fullmatch(name)
        if match and self._family.has_draft_layers and int(match[2]) >= self._config.num_layers:
            return {}
        if parts := self._fused_experts(name):
            return parts
        old = _OF_LATENTS.fullmatch(name)
        if old and (parts := split_latent(name, old[1], self._config)):
            return parts
        if self._family.gguf_fuses_gate and (match := _FUSED_GATE.fullmatch(name)):
            halves = [f"{match[1]}{half}{match[2]}" for half in ("gate", "up")]
            return split_tensor(name, dict.fromkeys(halves, self._config.intermediate_size))
        if match and match[3] in self._family.gguf_layer_names:
            ours = self._family.gguf_layer_names[match[3]]
            return {f"{match[1]}{ours}{match[4]}": TensorPart(name)}
        return {name: TensorPart(name)}

    def _fused_experts(self, name: str) -> Mapping[str, TensorPart]:
        """The gates and ups of experts in one tensor; nothing for any other."""
        match = _FUSED_EXPERTS.fullmatch(name)
        layers = self._config.layers
        experts = layers[int(match[2])].experts if match and int(match[2]) < len(layers) else None
        if match is None or experts is None:
            return {}
        halves = [f"{match[1]}{half}_exps{match[3]}" for half in ("gate", "up")]
        return split_tensor(name, dict.fromkeys(halves, experts.width), experts=experts.count)


def name_in_gguf(name: str, config: ModelConfig) -> str:
    """What GGUF files of the family call a tensor."""
    family = find_family(config.architecture)
    if name == _OUTPUT_NORM:
        return f"{family.gguf_output_norm}.weight"
    match = _OF_A_LAYER.fullmatch(name)
    names = family.gguf_layer_names
    theirs = {ours: their for their, ours in names.items()}
    if match is None or match[3] not in theirs:
        return name
    return f"{match[1]}{theirs[match[3]]}{match[4]}"


def permute_for_gguf(name: str, weight: torch.Tensor, config: ModelConfig) -> torch.Tensor:
    """A tensor of the layers, in the shape and order of rows that the family's GGUF files have."""
    if name.endswith(_FLAT) and (space := state_space_of(config)) is not None:
        return weight.view(space.groups if name.endswith(_NORM) else space.heads, -1)
    if not find_family(config.architecture).gguf_interleaves_heads:
        return weight
    order = interleaved_rows(name, config)
    return weight if order is None else weight[torch.argsort(torch.tensor(order))]
