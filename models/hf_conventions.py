"""The tensors of a safetensors model as the architectures want them.

Source: the names and formulas of transformers' modelling code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import torch

from .config import ModelConfig
from .errors import InvalidModel
from .tensor_rows import rows_of
from .weights import Weight, Weights

_WHOLE_MODEL = MappingProxyType(
    {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
)
_LAYER = MappingProxyType(
    {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    }
)
# What stands behind attention: the next norm, or one of attention's own.
_BEHIND_ATTENTION = "post_attention_layernorm"
_WITH_NORMS_BEHIND = frozenset({"gemma2", "gemma3", "olmo2"})
_NORMS_LACK_ONE = frozenset({"gemma2", "gemma3"})
_FUSED_ATTENTION, _FUSED_GATE = "self_attn.qkv_proj", "mlp.gate_up_proj"
_NAME = re.compile(
    r"(?:model\.language_model\.|language_model\.model\.|language_model\.|model\.)?"
    r"(?:layers\.(?P<layer>\d+)\.)?(?P<part>[\w.]+)\.(?P<kind>weight|bias)"
)
# Nothing that text needs: the half that sees images, and tables that follow from the settings.
_IGNORED = re.compile(
    r"(?:model\.)?(?:vision_tower|multi_modal_projector)\..*|.*\.rotary_emb\.inv_freq"
)


class HFConventions:
    """`Weights` over a model's tensors: names as in GGUF files, splits what is fused."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        self._raw = raw
        self._config = config
        self._sources: dict[str, tuple[str, slice | None]] = {}
        for name in raw.names:
            if not _IGNORED.fullmatch(name):
                self._sources.update(self._parts(name))
        if config.tied_embeddings:
            self._sources.pop("output.weight", None)

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is, by its canonical name."""
        return self._sources.keys()

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` where there is none."""
        if name not in self._sources:
            raise InvalidModel(
                f"The model has no tensor {name!r} under any name that ingle knows.",
                hint="Download it again: a file may be missing.",
            )
        source, part = self._sources[name]
        weight = self._raw.get(source)
        if part is not None:
            weight = rows_of(weight, part)
        if self._config.architecture in _NORMS_LACK_ONE and name.endswith("norm.weight"):
            assert isinstance(weight, torch.Tensor)
            return weight.float() + 1.0
        return weight

    def _parts(self, name: str) -> Mapping[str, tuple[str, slice | None]]:
        match = _NAME.fullmatch(name)
        if match is None:
            return {name: (name, None)}  # stays, so that it is found to be left over
        layer, part, kind = match["layer"], match["part"], match["kind"]
        if layer is None:
            return {f"{_WHOLE_MODEL.get(part, part)}.{kind}": (name, None)}
        names, sizes = self._layer_parts(part)
        starts = [sum(sizes[:index]) for index in range(len(sizes))]
        pieces = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        return {
            f"blk.{int(layer)}.{short}.{kind}": (name, piece)
            for short, piece in zip(names, pieces or [None], strict=True)
        }

    def _layer_parts(self, part: str) -> tuple[list[str], list[int]]:
        """Short names of what a tensor holds, and the rows of each where it holds several."""
        config = self._config
        if part == _FUSED_ATTENTION:
            heads = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
            return ["attn_q", "attn_k", "attn_v"], [config.head_size * count for count in heads]
        if part == _FUSED_GATE:
            return ["ffn_gate", "ffn_up"], [config.intermediate_size] * 2
        if part == _BEHIND_ATTENTION:
            own = config.architecture in _WITH_NORMS_BEHIND
            return ["post_attention_norm" if own else "ffn_norm"], []
        return [_LAYER.get(part, part)], []
