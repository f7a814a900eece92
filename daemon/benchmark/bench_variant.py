"""Variants of running a model: a baseline, and changes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ingle.backends.registry.engines import engine_choices

from ..settings.config import Config

AXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "clients": ("1", "4", "8"),
        "engine": engine_choices(),
        "kv": ("f16", "q8_0", "q4_0"),
        "flash": ("on", "off"),
        "quantize": ("none", "nf4"),
        "speculation": ("off", "ngram", "draft"),
    }
)
"""The axes that can be varied, with the values to try; the first is the baseline's."""
_SETTINGS = MappingProxyType(
    {"kv": "kv_type", "flash": "flash_attention"}
    | {name: name for name in ("engine", "quantize", "speculation")}
)
_MOST_CLIENTS = 64


class WrongCombination(ValueError):
    """Text that is not a valid variant; the message says why."""


@dataclass(frozen=True)
class BenchVariant:
    """Values by axis; an axis that is left out has the value of the settings."""

    values: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Its name in tables and files, determined by the values."""
        return " ".join(f"{axis}={value}" for axis, value in self.values) or "baseline"

    @property
    def wants_draft(self) -> bool:
        """Whether speculation uses a draft model."""
        return ("speculation", "draft") in self.values

    @property
    def clients(self) -> int:
        """Number of concurrent requests."""
        return int(dict(self.values).get("clients", "1"))

    def configure(self, config: Config) -> Config:
        """Return the settings to load the model with; nothing is stored on disk."""
        changes: dict[str, Any] = {"kv_disk": 0, "kv_memory": 0}
        changes |= {_SETTINGS[axis]: value for axis, value in self.values if axis in _SETTINGS}
        return replace(config, slots=max(config.slots, self.clients), **changes)

    @property
    def load(self) -> tuple[tuple[str, str], ...]:
        """A key, equal for variants that can share one loaded model."""
        return tuple(pair for pair in self.values if pair[0] in _SETTINGS)


def parse_combination(text: str) -> BenchVariant:
    """Parse `kv=q8_0 clients=4`, in any order; raises `WrongCombination`."""
    values: dict[str, str] = {}
    for word in text.replace(",", " ").split():
        axis, equals, value = word.partition("=")
        if not equals or axis not in AXES:
            raise WrongCombination(f"{word!r} is not one of {', '.join(AXES)} with a value.")
        _check(axis, value)
        values[axis] = value
    return BenchVariant(tuple((axis, values[axis]) for axis in AXES if axis in values))


def varied(axes: Sequence[str], drafts: bool) -> list[BenchVariant]:
    """Return the baseline, then each other value of each axis alone; raises `WrongCombination`.

    Speculation with a draft model is left out if none is known.
    """
    found = [BenchVariant()]
    for axis in axes:
        if axis not in AXES:
            raise WrongCombination(f"{axis!r} is not one of {', '.join(AXES)}.")
        for value in AXES[axis][1:]:
            if (axis, value) != ("speculation", "draft") or drafts:
                found.append(BenchVariant(((axis, value),)))
    return sorted(
        found, key=lambda combination: bool(combination.load)
    )  # together with the baseline


def _check(axis: str, value: str) -> None:
    if axis == "clients":
        if not value.isdecimal() or not 1 <= int(value) <= _MOST_CLIENTS:
            raise WrongCombination(f"clients is a number from 1 to {_MOST_CLIENTS}.")
    elif value not in AXES[axis]:
        raise WrongCombination(f"{axis} is one of {', '.join(AXES[axis])}, not {value!r}.")
