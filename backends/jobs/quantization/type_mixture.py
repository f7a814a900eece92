"""Chooses the type of each tensor by llama.cpp's rules, so that files equal its own.

Source: `llama_tensor_get_type` in llama.cpp's `llama-quant.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingle.models.gguf.gguf_writer import PlannedTensor, tensor_type

from .messages import QuantizationTarget

_LAYER = re.compile(r"blk\.(\d+)\.")
_KEPT = re.compile(
    r"_norm\.weight|ffn_gate_inp\.weight|ffn_gate_tid2eid\.weight|altup|laurel|per_layer_model_proj"
    r"|^position_embd\.weight|^token_types\.weight|ssm_conv1d|shortconv\.conv\.weight"
    r"|indexer\.[kq]_proj\.weight|time_mix_(?:first|w[012]|v[012]|a[012]|g[12]|decay_w[12])\.weight"
    r"|time_mix_lerp_fused\.weight|attn_rel_b\.weight|\.position_embd|\.rel_pos|\.patch_"
)
_EMBEDDINGS = ("token_embd.weight", "per_layer_token_embd.weight")
_VALUES = re.compile(r"attn_(?:v|qkv|kv_b)\.weight")
_SMALLER_BLOCKS = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}


@dataclass(frozen=True, slots=True)
class QuantizedShape:
    """The properties of a model that the rules use."""

    architecture: str
    layers: int
    heads: int
    kv_heads: int
    experts: int = 0

    @property
    def shares_values_widely(self) -> bool:
        """Return whether few value heads serve many queries, as in 70B models, and deserve more
        bits.
        """
        if self.layers != 80:
            return False
        return self.architecture in ("qwen2", "olmo", "deci") or (
            self.architecture == "llama" and self.heads != self.kv_heads
        )


def choose_types(
    tensors: Sequence[PlannedTensor],
    target: QuantizationTarget,
    shape: QuantizedShape,
    *,
    weighted: bool = False,
) -> Mapping[str, str]:
    """Return the type of each tensor; small ones keep the present `PlannedTensor.type`.

    `weighted` says that the importance of columns is known. A row that is no whole number of blocks
    gets a type with smaller ones, else float16.
    """
    ordered = sorted(tensors, key=lambda tensor: (_layer_of(tensor.name), tensor.name))
    values = [t.name for t in ordered if _VALUES.search(t.name)]
    rules = _Rules(
        *(target, shape, values, weighted),
        tied=all(tensor.name != "output.weight" for tensor in tensors),
    )
    return {tensor.name: rules.type_of(tensor) for tensor in tensors}


@dataclass(frozen=True, slots=True)
class _Rules:
    target: QuantizationTarget
    shape: QuantizedShape
    values: Sequence[str]
    weighted: bool
    tied: bool

    def type_of(self, tensor: PlannedTensor) -> str:
        is_matrix = any(size > 1 for size in tensor.shape[1:])
        if not is_matrix or not tensor.name.endswith("weight") or _KEPT.search(tensor.name):
            return tensor.type
        if not self.target.is_quantized:
            return self.target.tensor_type
        return _fitting(self._wanted(tensor), tensor.shape[0])

    def _wanted(self, tensor: PlannedTensor) -> str:
        name, base = tensor.name, self.target.tensor_type
        if name == "output.weight" or (self.tied and name in _EMBEDDINGS):
            whole = tensor.shape[0] % tensor_type(base).block_elements == 0
            if self.shape.architecture == "falcon" or not whole or base == "Q8_0":
                return "Q8_0"
            return "Q6_K"
        if name in self.values:
            return self._of_values(name)
        if name.endswith("attn_k.weight") and self.shape.experts == 8:
            return "Q8_0"
        if "ffn_down" in name and self._is_mixed:
            return self._of_down(name)
        if "ffn_down" in name and base == "Q4_0" and self.weighted:
            return "Q4_1" if _layer_of(name) < self.shape.layers // 8 else base
        if "attn_output.weight" in name and self.shape.experts == 8:
            return "Q5_K" if self.target is QuantizationTarget.Q4_K_M else base
        return base

    def _of_values(self, name: str) -> str:
        wanted = self.target.tensor_type
        if self._is_mixed and _gets_more_bits(self.values.index(name), len(self.values)):
            wanted = "Q6_K"
        if self.shape.shares_values_widely and wanted == "Q4_K":
            wanted = "Q5_K"
        return "Q8_0" if self.shape.experts == 8 else wanted

    def _of_down(self, name: str) -> str:
        layer, layers = _layer_of(name), self.shape.layers
        more = _gets_more_bits(layer, layers)
        if self.shape.architecture == "falcon" and self.target is QuantizationTarget.Q4_K_M:
            return "Q6_K" if layer < layers // 16 else "Q5_K" if more else "Q4_K"
        return "Q6_K" if more else self.target.tensor_type

    @property
    def _is_mixed(self) -> bool:
        return self.target in (QuantizationTarget.Q4_K_M, QuantizationTarget.Q5_K_M)


def _gets_more_bits(index: int, count: int) -> bool:
    """Return whether the layer is in the first or last eighth, or every third between them."""
    first = count // 8
    return index < first or index >= 7 * count // 8 or (index - first) % 3 == 2


def _fitting(wanted: str, row: int) -> str:
    for kind in (wanted, _SMALLER_BLOCKS.get(wanted, wanted)):
        if row % tensor_type(kind).block_elements == 0:
            return kind
    return "F16"


def _layer_of(name: str) -> int:
    match = _LAYER.search(name)
    return int(match[1]) if match else -1
