"""The tensors of a safetensors model as the architectures want them.

Source: the names and formulas of transformers' modelling code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import torch

from ..config.model_config import ModelConfig
from ..errors import InvalidModel
from .tensor_part import TensorPart, split_tensor
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


class HFTensorNames:
    """`Weights` over a model's tensors: names as in GGUF files, splits what is fused."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        self._raw = raw
        self._config = config
        self._parts: dict[str, TensorPart] = {}
        for name in raw.names:
            if not _IGNORED.fullmatch(name):
                self._parts.update(self._named_parts(name))
        if config.tied_embeddings:
            self._parts.pop("output.weight", None)

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is, by its canonical name."""
        return self._parts.keys()

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` where there is none."""
        if name not in self._parts:
            raise InvalidModel(
                f"The model has no tensor {name!r} under any name that ingle knows.",
                hint="Download it again: a file may be missing.",
            )
        weight = self._parts[name].read(self._raw)
        lacks_one = self._config.architecture in _NORMS_LACK_ONE and name.endswith("norm.weight")
        if lacks_one and isinstance(weight, torch.Tensor):
            return weight.float() + 1.0
        return weight

    def _named_parts(self, name: str) -> Mapping[str, TensorPart]:
        match = _NAME.fullmatch(name)
        if match is None:
            return {name: TensorPart(name)}  # stays, so that it is found to be left over
        layer, part, kind = match["layer"], match["part"], match["kind"]
        if layer is None:
            return {f"{_WHOLE_MODEL.get(part, part)}.{kind}": TensorPart(name)}
        start = f"blk.{int(layer)}"
        if sizes := self._fused(part):
            return split_tensor(
                name, {f"{start}.{short}.{kind}": size for short, size in sizes.items()}
            )
        return {f"{start}.{self._layer_name(part)}.{kind}": TensorPart(name)}

    def _fused(self, part: str) -> Mapping[str, int]:
        """The rows of each tensor that a fused one holds."""
        config = self._config
        if part == _FUSED_ATTENTION:
            heads = {"q": config.num_heads, "k": config.num_kv_heads, "v": config.num_kv_heads}
            return {f"attn_{name}": config.head_size * count for name, count in heads.items()}
        if part == _FUSED_GATE:
            return {"ffn_gate": config.intermediate_size, "ffn_up": config.intermediate_size}
        return {}

    def _layer_name(self, part: str) -> str:
        if part == _BEHIND_ATTENTION:
            own = self._config.architecture in _WITH_NORMS_BEHIND
            return "post_attention_norm" if own else "ffn_norm"
        return _LAYER.get(part, part)
