"""The tensors of a safetensors model, by the names of GGUF and split as the layers need them.

Source: the names and formulas of transformers' modelling code.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import torch

from ..config.model_config import ExpertConfig, ModelConfig
from .tensor_part import JoinedParts, SplitWeights, TensorPart, split_latent, split_tensor
from .weights import Weight, Weights

_WHOLE_MODEL: Mapping[str, str] = {
    "embed_tokens": "token_embd",
    "embeddings": "token_embd",
    "norm": "output_norm",
    "norm_f": "output_norm",
    "embedding_norm": "output_norm",
    "lm_head": "output",
    "embed_tokens_per_layer": "per_layer_token_embd",
    "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm",
    "altup_projections": "altup_proj",
    "altup_unembed_projections": "altup_unembd_proj",
}
_FUSED_ATTENTION, _FUSED_GATE = "self_attn.qkv_proj", "mlp.gate_up_proj"
_OF_LATENTS = "self_attn.kv_b_proj"
_PREFIX = (
    r"(?:model\.(?:language|text)_model\.|language_model\.model\.|language_model\.|model\."
    r"|backbone\.)?"
)
_NAME = re.compile(
    _PREFIX + r"(?:layers\.(?P<layer>\d+)\.)?(?P<part>[\w.]+)\.(?P<kind>weight|bias)"
)
_OF_A_LAYER = re.compile(_PREFIX + r"layers\.(\d{1,9})\.(.+)")
_SEPARATE_EXPERT = re.compile(
    r"(?:(?:mlp|block_sparse_moe|feed_forward|mixer)\.)?experts\.(\d{1,9})"
    r"\.(gate_proj|up_proj|down_proj|w[123])\.weight"
)
_EXPERT_NAMES: Mapping[str, str] = {
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
    "w1": "gate",
    "w3": "up",
    "w2": "down",
}
_GATES_AND_UPS = frozenset(
    {
        "experts.gate_up_proj",
        "mlp.experts.gate_up_proj",
        "block_sparse_moe.experts.gate_up_proj",
        "feed_forward.experts.gate_up_proj",
        "block_sparse_moe.input_linear.weight",
    }
)
# Names without a kind of tensor at their end.
_OTHER_NAMES: Mapping[str, str] = {
    "experts.down_proj": "ffn_down_exps.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
    "feed_forward.experts.down_proj": "ffn_down_exps.weight",
    "feed_forward.expert_bias": "exp_probs_b.bias",
    "block_sparse_moe.experts.down_proj": "ffn_down_exps.weight",
    "block_sparse_moe.output_linear.weight": "ffn_down_exps.weight",
    "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "self_attn.sinks": "attn_sinks.weight",
}
# Not needed for text: the image half, and tables that follow from the settings.
_IGNORED = re.compile(
    r"(?:model\.)?(?:visual|vision_tower|vision_model|audio_tower|embed_vision|embed_audio"
    r"|multi_modal_projector|connector)\..*"
    r"|.*\.rotary_emb\.inv_freq"
)


class HFTensorNames(SplitWeights):
    """`Weights` over a model's tensors: renames them as in GGUF files and splits fused ones."""

    def __init__(self, raw: Weights, config: ModelConfig, buffers: Collection[str] = ()) -> None:
        """`buffers` are tensors that are left out, rather than unknown, if no layer needs them."""
        self._buffers = buffers
        super().__init__(raw, config)
        if config.tied_embeddings:
            self._parts.pop("output.weight", None)

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` if there is none of this name."""
        hint = "Download it again: a file may be missing."
        weight = self._read(name, hint, interleaved=self._family.hf_interleaves_heads)
        offset = self._family.hf_norm_offset
        if not isinstance(weight, torch.Tensor):
            return weight
        if offset and name.endswith("norm.weight") and not name.endswith("ssm_norm.weight"):
            return weight.float() + offset
        if name.endswith(".ssm_a"):
            return -weight.float().exp()
        if name.endswith("inp_shexp.weight"):
            return weight.flatten()  # of a linear layer with one output
        return weight

    def _named_parts(self, name: str) -> Mapping[str, TensorPart]:
        if _IGNORED.fullmatch(name):
            return {}
        if self._family.has_draft_layers and name.startswith("mtp."):
            return {}
        if match := _OF_A_LAYER.fullmatch(name):
            layer, own = int(match[1]), self._family.hf_parts(match[2], self._config)
            if own is not None and layer < self._config.num_layers:
                return {
                    f"blk.{layer}.{ours}": TensorPart(
                        name, stored.rows, stored.total, columns=stored.columns
                    )
                    for ours, stored in own.items()
                }
            parts = self._expert_parts(name, int(match[1]), match[2])
            if parts is not None:
                return parts
        match = _NAME.fullmatch(name)
        if match is None:  # kept, so that it is reported as unknown
            return {} if name in self._buffers else {name: TensorPart(name)}
        layer, part, kind = match["layer"], match["part"], match["kind"]
        if layer is None:
            part, dot, number = part.partition(".")
            return {f"{_WHOLE_MODEL.get(part, part)}{dot}{number}.{kind}": TensorPart(name)}
        start = f"blk.{int(layer)}"
        if part == _OF_LATENTS and (found := split_latent(name, start, self._config)):
            return found
        if sizes := self._fused(part):
            return split_tensor(
                name, {f"{start}.{short}.{kind}": size for short, size in sizes.items()}
            )
        return {f"{start}.{self._family.hf_layer_names.get(part, part)}.{kind}": TensorPart(name)}

    def _expert_parts(self, name: str, layer: int, part: str) -> Mapping[str, TensorPart] | None:
        """What a tensor of all experts or of an extra layer becomes; None for any other."""
        layers = self._config.layers
        if layer >= len(layers):
            return {} if self._family.has_draft_layers else None
        experts = layers[layer].experts
        if experts is None:
            return None
        if self._family.hf_alternates_gates and (parts := _alternating(name, layer, part, experts)):
            return parts
        if part in _GATES_AND_UPS:
            sizes = {
                f"blk.{layer}.ffn_{half}_exps.weight": experts.width for half in ("gate", "up")
            }
            return split_tensor(name, sizes, experts=experts.count)
        if part in _OTHER_NAMES:
            return {f"blk.{layer}.{_OTHER_NAMES[part]}": TensorPart(name)}
        return {} if _SEPARATE_EXPERT.fullmatch(part) else None

    def _joined_parts(self, names: Iterable[str]) -> Mapping[str, JoinedParts]:
        found: defaultdict[str, dict[int, TensorPart]] = defaultdict(dict)
        for name in names:
            layer = _OF_A_LAYER.fullmatch(name)
            match = _SEPARATE_EXPERT.fullmatch(layer[2]) if layer else None
            if layer and match and int(layer[1]) < self._config.num_layers:
                whole = f"blk.{int(layer[1])}.ffn_{_EXPERT_NAMES[match[2]]}_exps.weight"
                found[whole][int(match[1])] = TensorPart(name)
        return {
            whole: JoinedParts([parts[expert] for expert in sorted(parts)])
            for whole, parts in found.items()
        }

    def _fused(self, part: str) -> Mapping[str, int]:
        """The rows of each tensor that a fused one holds."""
        config = self._config
        if part == _FUSED_ATTENTION:
            return {f"attn_{name}": rows for name, rows in self._attention_rows().items()}
        if part == _FUSED_GATE:
            return {"ffn_gate": config.intermediate_size, "ffn_up": config.intermediate_size}
        return {}


def _alternating(
    name: str, layer: int, part: str, experts: ExpertConfig
) -> Mapping[str, TensorPart]:
    """The tensors of gpt-oss's experts: transposed, with the gates at even places; else nothing."""
    start = f"blk.{layer}.ffn_"
    halves = {"gate": slice(0, None, 2), "up": slice(1, None, 2)}
    if part == "mlp.experts.gate_up_proj":
        total = 2 * experts.width
        return {
            f"{start}{half}_exps.weight": TensorPart(
                name, rows, total, experts.count, transposed=True
            )
            for half, rows in halves.items()
        }
    if part == "mlp.experts.gate_up_proj_bias":
        return {
            f"{start}{half}_exps.bias": TensorPart(name, columns=columns)
            for half, columns in halves.items()
        }
    if part == "mlp.experts.down_proj":
        return {f"{start}down_exps.weight": TensorPart(name, transposed=True)}
    return {}
