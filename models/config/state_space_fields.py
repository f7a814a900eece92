"""State space layers (Mamba-2), as GGUF headers and config.json files describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingle.kernels.recurrent.recurrent_shapes import StateSpaceShape

from .config_fields import ConfigFields
from .model_config import ModelConfig
from .recurrent_fields import kv_head_counts

_MOST_HEADS = 1 << 14
_WIDEST = 1 << 20
_LARGEST_STATE = 1 << 12
_MOST_INPUTS = 64


def state_space_from_gguf(fields: ConfigFields) -> StateSpaceShape:
    """The state space layers that a header describes."""
    heads = fields.integer("ssm.time_step_rank", 1, _MOST_HEADS)
    width = fields.integer("ssm.inner_size", heads, _WIDEST)
    return _checked(
        fields,
        StateSpaceShape(
            heads=heads,
            head_size=width // heads,
            groups=fields.integer("ssm.group_count", 1, heads),
            state_size=fields.integer("ssm.state_size", 1, _LARGEST_STATE),
            kernel=fields.integer("ssm.conv_kernel", 2, _MOST_INPUTS),
        ),
    )


def state_space_from_hf(
    fields: ConfigFields, names: Mapping[str, str], defaults: Mapping[str, int]
) -> StateSpaceShape:
    """The state space layers that a config.json describes under the `names` of the fields."""

    def read(field: str, high: int, low: int = 1) -> int:
        return fields.integer(names[field], low, high, defaults.get(field))

    heads = read("heads", _MOST_HEADS)
    return _checked(
        fields,
        StateSpaceShape(
            heads=heads,
            head_size=read("head_size", _WIDEST),
            groups=read("groups", heads),
            state_size=read("state_size", _LARGEST_STATE),
            kernel=read("kernel", _MOST_INPUTS, 2),
        ),
    )


def state_space_keys(config: ModelConfig) -> Mapping[str, float | Sequence[int]]:
    """The keys of a GGUF header for the state space layers of a model, and which these are."""
    found = state_space_of(config)
    if found is None:
        return {}
    return {
        "ssm.conv_kernel": found.kernel,
        "ssm.state_size": found.state_size,
        "ssm.group_count": found.groups,
        "ssm.time_step_rank": found.heads,
        "ssm.inner_size": found.width,
        "attention.head_count_kv": kv_head_counts(config),
    }


def state_space_of(config: ModelConfig) -> StateSpaceShape | None:
    """What all state space layers of a model have in common; None if it has none."""
    kinds = (layer.recurrent for layer in config.layers)
    return next((kind for kind in kinds if isinstance(kind, StateSpaceShape)), None)


def _checked(fields: ConfigFields, found: StateSpaceShape) -> StateSpaceShape:
    if found.heads % found.groups:
        fields.fail(f"shares {found.groups} groups of states among {found.heads} heads")
    if "time_step_limit" in fields and not fields.is_unlimited("time_step_limit"):
        fields.refuse("limits the time steps of its layers", "Use a GGUF file of the model.")
    return found
