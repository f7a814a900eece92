"""Ollama's `options`: what of them is sampling, what is a bound, and what this daemon decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

from ingle.backends.base.sampling_params import SAMPLING_OPTIONS

from ...errors import InvalidBody
from ..request_values import token_limit
from ..sampling_options import SamplingOptions, stop_strings

_LARGEST = 2**31 - 1
_LARGE = 100.0

# Ollama takes any number; beyond these bounds the answer changes no more, or makes no sense.
_BOUNDS = {
    name: (option.ollama_bounds, option.is_integer)
    for name, option in SAMPLING_OPTIONS.items()
    if option.ollama_bounds is not None
}
_IGNORED_WHOLE = frozenset({"num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread"})
_IGNORED_FLAGS = frozenset(
    {"use_mmap", "use_mlock", "numa", "low_vram", "f16_kv", "vocab_only", "penalize_newline"}
)


@dataclass(frozen=True)
class ModelOptions:
    """The options that change an answer.

    `context` bounds prompt and answer together, and the model is loaded with at least that.
    """

    sampling: SamplingOptions
    stop: list[str]
    context: int | None = None
    max_tokens: int | None = None


def model_options(given: Mapping[str, Any] | None) -> ModelOptions:
    """Check `options`: unknown ones and null are ignored, a wrong type raises `InvalidBody`."""
    options = {name: value for name, value in (given or {}).items() if value is not None}
    values: dict[str, Any] = {}
    for name, ((least, most), is_integer) in _BOUNDS.items():
        if name in options:
            value = _whole(options, name) if is_integer else _number(options, name)
            values[name] = min(max(value, least), most)
    for name in _IGNORED_WHOLE & options.keys():
        _whole(options, name)
    for name in _IGNORED_FLAGS & options.keys():
        if not isinstance(options[name], bool):
            raise _wrong(name, "true or false")
    seed = _whole(options, "seed") if "seed" in options else -1
    if seed >= 0:
        values["seed"] = seed % 2**63
    return ModelOptions(
        sampling=SamplingOptions(**values),
        stop=_stop(options),
        context=_context(options),
        max_tokens=token_limit(
            _whole(options, "num_predict") if "num_predict" in options else None
        ),
    )


def _context(options: Mapping[str, Any]) -> int | None:
    if "num_ctx" not in options:
        return None
    wanted = _whole(options, "num_ctx")
    # 0 and below are not set, as in Ollama; with fewer than four tokens nothing can be said.
    return None if wanted <= 0 else min(max(wanted, 4), _LARGEST)


def _stop(options: Mapping[str, Any]) -> list[str]:
    if "stop" not in options:
        return []
    value = options["stop"]
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(
        isinstance(item, str) for item in cast("list[object]", items)
    ):
        raise _wrong("stop", "a list of strings")
    # Ollama skips empty ones, which would end every answer at once.
    return stop_strings([text for text in cast("list[str]", items) if text])


def _number(options: Mapping[str, Any], name: str) -> float:
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = _LARGE if value > 0 else -_LARGE
    if not isfinite(number):
        raise _wrong(name, "a finite number")
    return number


def _whole(options: Mapping[str, Any], name: str) -> int:
    """An integer; a fraction is cut off, as Ollama does."""
    value = options[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and isfinite(value):
        return int(value)
    raise _wrong(name, "an integer")


def _wrong(name: str, kind: str) -> InvalidBody:
    return InvalidBody(f"The option '{name}' must be {kind}.", param=f"options.{name}")
