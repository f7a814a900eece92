"""llama-server's words for sampling: what it would cut to its bounds is cut to ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from ...errors import InvalidBody
from ..sampling_options import LARGEST_TOKEN_ID, SamplingOptions

Number = int | float
Bias = Number | bool
Biases = Annotated[dict[str, Bias], Meta(max_length=2**16)]
BiasPairs = Annotated[list[list[str | Number | bool]], Meta(max_length=2**16)]

_BANNED = -100.0
_MAX_BREAKERS = 16
_MOST = 2**31 - 1

# The least and the most of each field.
_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "temperature": (0.0, 10.0),
        "dynatemp_range": (0.0, 10.0),
        "dynatemp_exponent": (0.01, 10.0),
        "top_p": (1e-6, 1.0),
        "min_p": (0.0, 1.0),
        "typical_p": (1e-6, 1.0),
        "top_n_sigma": (-1.0, 100.0),
        "xtc_probability": (0.0, 1.0),
        "xtc_threshold": (0.0, 1.0),
        "mirostat_tau": (0.0, 100.0),
        "mirostat_eta": (0.0, 1.0),
        "repeat_penalty": (0.01, 10.0),
        "frequency_penalty": (-10.0, 10.0),
        "presence_penalty": (-10.0, 10.0),
        "dry_multiplier": (0.0, 100.0),
        "dry_base": (1.0, 100.0),
    }
)
_WHOLE_BOUNDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "top_k": (0, _MOST),
        "mirostat": (0, 2),
        "repeat_last_n": (-1, _MOST),
        "dry_allowed_length": (0, _MOST),
        "dry_penalty_last_n": (-1, _MOST),
    }
)
# What each sampler that is not in the list would have done, undone.
_OFF: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "penalties": {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
        "dry": {"dry_multiplier": 0.0},
        "top_n_sigma": {"top_n_sigma": -1.0},
        "top_k": {"top_k": 0},
        "typ_p": {"typical_p": 1.0},
        "top_p": {"top_p": 1.0},
        "min_p": {"min_p": 0.0},
        "xtc": {"xtc_probability": 0.0},
        "temperature": {"temperature": 1.0, "dynatemp_range": 0.0},
    }
)
_SPELLINGS: Mapping[str, str] = MappingProxyType({"typical_p": "typ_p", "temp": "temperature"})
_LIKELY = 0.3
"""The sampler `infill` keeps tokens of a fifth at least; this much of the likeliest comes near."""


class SamplingFields(msgspec.Struct, kw_only=True):
    """The fields of a request that are about sampling; a number too large or small is cut."""

    temperature: Number | None = None
    dynatemp_range: Number | None = None
    dynatemp_exponent: Number | None = None
    top_k: Number | None = None
    top_p: Number | None = None
    min_p: Number | None = None
    typical_p: Number | None = None
    top_n_sigma: Number | None = None
    xtc_probability: Number | None = None
    xtc_threshold: Number | None = None
    mirostat: Number | None = None
    mirostat_tau: Number | None = None
    mirostat_eta: Number | None = None
    repeat_last_n: Number | None = None
    repeat_penalty: Number | None = None
    frequency_penalty: Number | None = None
    presence_penalty: Number | None = None
    dry_multiplier: Number | None = None
    dry_base: Number | None = None
    dry_allowed_length: Number | None = None
    dry_penalty_last_n: Number | None = None
    dry_sequence_breakers: list[str] | None = None
    seed: Number | None = None
    logit_bias: Biases | BiasPairs | None = None
    samplers: str | list[str] | None = None


def sampling_options(fields: SamplingFields) -> SamplingOptions:
    """The options for a job; raises `InvalidBody`."""
    values: dict[str, Any] = {}
    for name, (least, most) in _BOUNDS.items():
        if (number := getattr(fields, name)) is not None:
            values[name] = float(bounded(number, least, most))
    for name, (lowest, highest) in _WHOLE_BOUNDS.items():
        if (number := getattr(fields, name)) is not None:
            values[name] = bounded(number, lowest, highest)
    if fields.seed is not None and fields.seed >= 0:
        values["seed"] = bounded(fields.seed, 0, 2**63 - 1)
    if fields.dry_sequence_breakers is not None:
        breakers = [text[:40] for text in fields.dry_sequence_breakers if text]
        values["dry_sequence_breakers"] = breakers[:_MAX_BREAKERS]
    if isinstance(fields.samplers, list) and not values.get("mirostat"):
        _leave_out(values, {_SPELLINGS.get(name, name) for name in fields.samplers})
    return SamplingOptions(**values, logit_bias=_bias(fields))


def bounded(number: Number, least: float, most: float) -> int:
    """The number within its bounds; a whole one where the bounds are."""
    cut = max(least, min(most, number))
    return int(cut) if isinstance(least, int) else cast("int", cut)


def _leave_out(values: dict[str, Any], named: set[str]) -> None:
    for sampler, off in _OFF.items():
        if sampler not in named:
            values |= off
    if "infill" in named:
        values["min_p"] = max(_LIKELY, values.get("min_p", 0.0))


def _bias(fields: SamplingFields) -> dict[str, float] | None:
    given = fields.logit_bias
    if given is None:
        return None
    pairs: list[tuple[object, object]] = (
        list(given.items())
        if isinstance(given, dict)
        else [(pair[0], pair[1]) for pair in given if len(pair) == 2]
    )
    biases: dict[str, float] = {}
    for token, bias in pairs:
        if bias is True or isinstance(bias, str):
            continue  # llama-server passes over what is no bias
        number = _BANNED if bias is False else bounded(cast("Number", bias), -100.0, 100.0)
        biases[_token(token)] = float(number)
    return biases


def _token(token: object) -> str:
    text = str(token)
    whole = not isinstance(token, bool | float) and text.isascii() and text.isdigit()
    if whole and len(text) <= 10 and int(text) <= LARGEST_TOKEN_ID:
        return text
    raise InvalidBody(
        f"'logit_bias' names {text[:40]!r}, which is not the number of a token.",
        hint="Ask /tokenize for the numbers of a text's tokens.",
        param="logit_bias",
    )
