"""Gated DeltaNets, as GGUF headers and config.json files describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ingle.kernels.recurrent.recurrent_shapes import DeltaNetShape

from .config_fields import ConfigFields
from .model_config import ModelConfig
from .recurrent_fields import with_recurrent_layers

_MOST_HEADS = 1 << 10
_WIDEST_HEAD = 1 << 10
_MOST_INPUTS = 64
_PERIOD = 4


def delta_nets_from_gguf(
    fields: ConfigFields, config: ModelConfig, *, takes_turns: bool
) -> ModelConfig:
    """The configuration with gated attention, and DeltaNets in the layers that have none."""
    value_heads = fields.integer("ssm.time_step_rank", 1, _MOST_HEADS)
    width = fields.integer("ssm.inner_size", value_heads, value_heads * _WIDEST_HEAD)
    found = DeltaNetShape(
        key_heads=fields.integer("ssm.group_count", 1, _MOST_HEADS),
        value_heads=value_heads,
        key_size=fields.integer("ssm.state_size", 1, _WIDEST_HEAD),
        value_size=width // value_heads,
        kernel=fields.integer("ssm.conv_kernel", 2, _MOST_INPUTS),
        takes_turns=takes_turns,
    )
    key = "attention.recurrent_layers"
    if fields.is_list(key):
        return _with_delta_nets(fields, config, found, fields.flags(key, config.num_layers))
    period = fields.integer("full_attention_interval", 1, 1024, _PERIOD)
    return _with_delta_nets(fields, config, found, _all_but_every(period, config.num_layers))


def delta_nets_from_hf(
    fields: ConfigFields, config: ModelConfig, *, takes_turns: bool
) -> ModelConfig:
    """The configuration with gated attention, and DeltaNets in the layers that have none."""
    found = DeltaNetShape(
        key_heads=fields.integer("linear_num_key_heads", 1, _MOST_HEADS, 16),
        value_heads=fields.integer("linear_num_value_heads", 1, _MOST_HEADS, 32),
        key_size=fields.integer("linear_key_head_dim", 1, _WIDEST_HEAD, 128),
        value_size=fields.integer("linear_value_head_dim", 1, _WIDEST_HEAD, 128),
        kernel=fields.integer("linear_conv_kernel_dim", 2, _MOST_INPUTS, 4),
        takes_turns=takes_turns,
    )
    count = config.num_layers
    if "layer_types" in fields:
        kinds = fields.texts("layer_types", count)
        return _with_delta_nets(fields, config, found, [k == "linear_attention" for k in kinds])
    period = fields.integer("full_attention_interval", 1, 1024, _PERIOD)
    return _with_delta_nets(fields, config, found, _all_but_every(period, count))


def delta_net_keys(config: ModelConfig) -> Mapping[str, float | Sequence[int]]:
    """The keys of a GGUF header for the DeltaNets of a model."""
    found = delta_net_of(config)
    if found is None:
        return {}
    return {
        "ssm.conv_kernel": found.kernel,
        "ssm.state_size": found.key_size,
        "ssm.group_count": found.key_heads,
        "ssm.time_step_rank": found.value_heads,
        "ssm.inner_size": found.value_width,
        "attention.recurrent_layers": [int(layer.recurrent is not None) for layer in config.layers],
    }


def delta_net_of(config: ModelConfig) -> DeltaNetShape | None:
    """What all DeltaNets of a model have in common; None if it has none."""
    kinds = (layer.recurrent for layer in config.layers)
    return next((kind for kind in kinds if isinstance(kind, DeltaNetShape)), None)


def _all_but_every(period: int, count: int) -> Iterable[bool]:
    return [(index + 1) % period != 0 for index in range(count)]


def _with_delta_nets(
    fields: ConfigFields, config: ModelConfig, found: DeltaNetShape, where: Iterable[bool]
) -> ModelConfig:
    if found.value_heads % found.key_heads:
        fields.fail(f"shares {found.key_heads} key heads among {found.value_heads} of values")
    return replace(with_recurrent_layers(config, found, where), gated_attention=True)
