"""Qwen3-Next: the layers of Qwen 3.5 with experts, stored by the heads of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from ...config.config_fields import ConfigFields
from ...config.delta_net_fields import (
    delta_net_keys,
    delta_net_of,
    delta_nets_from_gguf,
    delta_nets_from_hf,
)
from ...config.expert_fields import with_experts
from ...config.model_config import ModelConfig
from ..family import StoredRows
from ..mixtures.qwen2moe import sparse_layers
from . import qwen35moe

_NAMES = {
    "in_proj_ba.weight": "ssm_ba.weight",
    "conv1d.weight": "ssm_conv1d.weight",
    "A_log": "ssm_a",
    "dt_bias": "ssm_dt.bias",
    "norm.weight": "ssm_norm.weight",
    "out_proj.weight": "ssm_out.weight",
}


def _read_gguf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    config = qwen35moe.with_gguf_experts(fields, config)
    return delta_nets_from_gguf(fields, config, takes_turns=False)


def _read_hf(fields: ConfigFields, config: ModelConfig) -> ModelConfig:
    experts = qwen35moe.hf_experts(fields, used=10, count=512)
    config = with_experts(config, experts, sparse_layers(fields))
    return delta_nets_from_hf(fields, config, takes_turns=False)


def _hf_parts(part: str, config: ModelConfig) -> Mapping[str, StoredRows] | None:
    """The tensors of DeltaNets; one has a key's query, key, values and gates together."""
    found = delta_net_of(config)
    if found is None or not part.startswith("linear_attn."):
        return None
    short = part.removeprefix("linear_attn.")
    if short != "in_proj_qkvz.weight":
        return {_NAMES[short]: StoredRows()} if short in _NAMES else None
    values = found.value_width // found.key_heads
    each = 2 * found.key_size + 2 * values
    starts = (0, found.key_size, 2 * found.key_size, 2 * found.key_size + values)
    sizes = (found.key_size, found.key_size, values, values)
    query, key, value, gate = (
        list(
            chain.from_iterable(
                range(head * each + start, head * each + start + size)
                for head in range(found.key_heads)
            )
        )
        for start, size in zip(starts, sizes, strict=True)
    )
    total = each * found.key_heads
    return {
        "attn_qkv.weight": StoredRows([*query, *key, *value], total),
        "attn_gate.weight": StoredRows(gate, total),
    }


FAMILY = replace(
    qwen35moe.FAMILY,
    name="qwen3next",
    read_gguf=_read_gguf,
    hf_parts=_hf_parts,
    gguf_keys=delta_net_keys,
    hf_types=(
        replace(
            qwen35moe.FAMILY.hf_types[0],
            name="qwen3_next",
            read=_read_hf,
            multimodal_types=(),
            vocab_size=151936,
        ),
    ),
)
