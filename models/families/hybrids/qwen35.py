"""Qwen 3.5 and 3.6 without experts: gated DeltaNets, and gated attention in every fourth layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ...config.config_fields import ConfigFields
from ...config.delta_net_fields import (
    delta_net_keys,
    delta_net_of,
    delta_nets_from_gguf,
    delta_nets_from_hf,
)
from ...config.model_config import ModelConfig
from ..family import Family, GGUFValue, HFModelType, QueryKeyNorm, StoredRows

_ROPE_SECTIONS = (11, 11, 10, 0)


def read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """The DeltaNets; heads of values take turns with those of keys."""
    return delta_nets_from_gguf(fields, config, takes_turns=True)


def read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    """As `read_gguf`: `_hf_parts` puts the heads of values into this order."""
    return delta_nets_from_hf(fields, config, takes_turns=True)


def _hf_parts(part: str, config: ModelConfig) -> Mapping[str, StoredRows] | None:
    """The tensors of DeltaNets, whose files have the values of each key side by side."""
    found = delta_net_of(config)
    if found is None or not part.startswith("linear_attn."):
        return None
    values = _in_turns(found.value_width, found.key_heads, found.value_size)
    heads = _in_turns(found.value_heads, found.key_heads, 1)
    before = 2 * found.key_width
    mixed = [*range(before), *(before + row for row in values)]
    all_mixed = StoredRows(mixed, len(mixed))
    each_head = StoredRows(heads, len(heads))
    parts = {
        "in_proj_qkv.weight": ("attn_qkv.weight", all_mixed),
        "in_proj_z.weight": ("attn_gate.weight", StoredRows(values, len(values))),
        "in_proj_b.weight": ("ssm_beta.weight", each_head),
        "in_proj_a.weight": ("ssm_alpha.weight", each_head),
        "conv1d.weight": ("ssm_conv1d.weight", all_mixed),
        "A_log": ("ssm_a", each_head),
        "dt_bias": ("ssm_dt.bias", each_head),
        "norm.weight": ("ssm_norm.weight", StoredRows()),
        "out_proj.weight": ("ssm_out.weight", StoredRows(columns=values)),
    }
    known = parts.get(part.removeprefix("linear_attn."))
    return None if known is None else dict([known])


def _in_turns(rows: int, groups: int, size: int) -> list[int]:
    """The order of rows by the place in their group first, in heads of `size`."""
    heads = range(rows // size)
    each = len(heads) // groups
    order = sorted(heads, key=lambda head: (head % each, head // each))
    return list(chain.from_iterable(range(head * size, (head + 1) * size) for head in order))


def _gguf_keys(config: ModelConfig) -> Mapping[str, GGUFValue]:
    # llama.cpp asks for the parts of RoPE for pictures.
    sections: Sequence[int] = _ROPE_SECTIONS
    return {**delta_net_keys(config), "rope.dimension_sections": sections}


HF_TYPE = HFModelType(
    name="qwen3_5_text",
    read=read_hf,
    multimodal_types=("qwen3_5",),
    context=32768,
    vocab_size=248320,
    heads=16,
    kv_heads=4,
    head_size=256,
    rotated_share=0.25,
)
"""The defaults of transformers, most of which the editions with experts share."""
FAMILY = Family(
    name="qwen35",
    query_key_norm=QueryKeyNorm.EACH_HEAD,
    read_gguf=read_gguf,
    hf_norm_offset=1.0,
    hf_parts=_hf_parts,
    has_states=True,
    has_draft_layers=True,
    has_mtp_head=True,
    gguf_layer_names={"post_attention_norm": "ffn_norm"},
    gguf_keys=_gguf_keys,
    hf_types=(HF_TYPE,),
)
