"""Ollama's `options`: what of them is sampling, what is a bound, and what this daemon decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

from ...errors import InvalidBody
from ..sampling_options import SamplingOptions, stop_strings

_LARGEST = 2**31 - 1
_TINY = 1e-6
_LARGE = 100.0

# Ollama takes any number; beyond these bounds nothing changes any more, or nothing sensible comes.
_NUMBERS: Mapping[str, tuple[float, float]] = {
    "temperature": (0.0, _LARGE),
    "top_p": (_TINY, 1.0),
    "min_p": (0.0, 1.0),
    "typical_p": (_TINY, 1.0),
    "repeat_penalty": (0.01, _LARGE),
    "presence_penalty": (-_LARGE, _LARGE),
    "frequency_penalty": (-_LARGE, _LARGE),
    "mirostat_tau": (0.0, _LARGE),
    "mirostat_eta": (0.0, 1.0),
}
_WHOLE: Mapping[str, tuple[int, int]] = {
    "top_k": (0, _LARGEST),
    "repeat_last_n": (-1, _LARGEST),
    "mirostat": (0, 2),
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
    for name, (least, most) in _NUMBERS.items():
        if name in options:
            values[name] = min(max(_number(options, name), least), most)
    for name, (lowest, highest) in _WHOLE.items():
        if name in options:
            values[name] = min(max(_whole(options, name), lowest), highest)
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
        max_tokens=_max_tokens(options),
    )


def _context(options: Mapping[str, Any]) -> int | None:
    if "num_ctx" not in options:
        return None
    wanted = _whole(options, "num_ctx")
    # 0 and below are not set, as in Ollama; with fewer than four tokens nothing can be said.
    return None if wanted <= 0 else min(max(wanted, 4), _LARGEST)


def _max_tokens(options: Mapping[str, Any]) -> int | None:
    if "num_predict" not in options:
        return None
    wanted = _whole(options, "num_predict")
    return None if wanted < 0 else min(wanted, _LARGEST)


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
