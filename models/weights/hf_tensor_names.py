"""The tensors of a safetensors model, by the names of GGUF and split as the layers need them.

Source: the names and formulas of transformers' modelling code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from ..config.model_config import ModelConfig
from .tensor_part import SplitWeights, TensorPart, split_tensor
from .weights import Weight, Weights

_WHOLE_MODEL: Mapping[str, str] = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}
_FUSED_ATTENTION, _FUSED_GATE = "self_attn.qkv_proj", "mlp.gate_up_proj"
_NAME = re.compile(
    r"(?:model\.language_model\.|language_model\.model\.|language_model\.|model\.)?"
    r"(?:layers\.(?P<layer>\d+)\.)?(?P<part>[\w.]+)\.(?P<kind>weight|bias)"
)
# Not needed for text: the image half, and tables that follow from the settings.
_IGNORED = re.compile(
    r"(?:model\.)?(?:vision_tower|multi_modal_projector)\..*|.*\.rotary_emb\.inv_freq"
)


class HFTensorNames(SplitWeights):
    """`Weights` over a model's tensors: renames them as in GGUF files and splits fused ones."""

    def __init__(self, raw: Weights, config: ModelConfig) -> None:
        super().__init__(raw, config)
        if config.tied_embeddings:
            self._parts.pop("output.weight", None)

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` if there is none of this name."""
        weight = self._read(name, "Download it again: a file may be missing.")
        offset = self._family.hf_norm_offset
        if offset and name.endswith("norm.weight") and isinstance(weight, torch.Tensor):
            return weight.float() + offset
        return weight

    def _named_parts(self, name: str) -> Mapping[str, TensorPart]:
        if _IGNORED.fullmatch(name):
            return {}
        match = _NAME.fullmatch(name)
        if match is None:
            return {name: TensorPart(name)}  # kept, so that it is reported as unknown
        layer, part, kind = match["layer"], match["part"], match["kind"]
        if layer is None:
            return {f"{_WHOLE_MODEL.get(part, part)}.{kind}": TensorPart(name)}
        start = f"blk.{int(layer)}"
        if sizes := self._fused(part):
            return split_tensor(
                name, {f"{start}.{short}.{kind}": size for short, size in sizes.items()}
            )
        return {f"{start}.{self._family.hf_layer_names.get(part, part)}.{kind}": TensorPart(name)}

    def _fused(self, part: str) -> Mapping[str, int]:
        """The rows of each tensor that a fused one holds."""
        config = self._config
        if part == _FUSED_ATTENTION:
            return {f"attn_{name}": rows for name, rows in self._attention_rows().items()}
        if part == _FUSED_GATE:
            return {"ffn_gate": config.intermediate_size, "ffn_up": config.intermediate_size}
        return {}
