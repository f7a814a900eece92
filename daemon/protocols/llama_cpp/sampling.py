"""llama-server's sampling fields, whose values are clamped to its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeGuard, cast

import msgspec
from msgspec import Meta

from ingle.backends.base.sampling_params import SAMPLING_OPTIONS

from ...errors import InvalidBody
from ..request_options import LARGEST_TOKEN_ID, SamplingOptions

Number = int | float
Bias = Number | bool
Biases = Annotated[dict[str, Bias], Meta(max_length=2**16)]
BiasPairs = Annotated[list[list[str | Number | bool]], Meta(max_length=2**16)]

_BANNED = -100.0
_MAX_BREAKERS = 16
MAX_BIASED_TEXTS = 1024
LONGEST_TEXT = 256
"""Characters."""

# For each sampler that a request does not name: the values with which it has no effect.
_OFF: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        option.llama_sampler: {
            name: other.off
            for name, other in SAMPLING_OPTIONS.items()
            if other.llama_sampler == option.llama_sampler
        }
        for option in SAMPLING_OPTIONS.values()
        if option.llama_sampler is not None
    }
)
_SPELLINGS: Mapping[str, str] = MappingProxyType({"typical_p": "typ_p", "temp": "temperature"})
_LIKELY = 0.3
"""The sampler `infill` keeps tokens of a fifth at least; this much of the likeliest comes near."""


_NumberFields = msgspec.defstruct(
    "_NumberFields", [(name, Number | None, None) for name in SAMPLING_OPTIONS], kw_only=True
)


class SamplingFields(_NumberFields, kw_only=True):
    """The sampling fields of a request; a number out of bounds is clamped."""

    dry_sequence_breakers: list[str] | None = None
    seed: Number | None = None
    logit_bias: Biases | BiasPairs | None = None
    samplers: str | list[str] | None = None


def sampling_options(fields: SamplingFields) -> SamplingOptions:
    """The options for a job; raises `InvalidBody`."""
    values: dict[str, Any] = {}
    for name, option in SAMPLING_OPTIONS.items():
        if (number := getattr(fields, name)) is not None:
            clamped = bounded(number, *option.clamp_bounds())
            values[name] = clamped if option.is_integer else float(clamped)
    if fields.seed is not None and fields.seed >= 0:
        values["seed"] = bounded(fields.seed, 0, 2**63 - 1)
    if fields.dry_sequence_breakers is not None:
        breakers = [text[:40] for text in fields.dry_sequence_breakers if text]
        values["dry_sequence_breakers"] = breakers[:_MAX_BREAKERS]
    if isinstance(fields.samplers, list) and not values.get("mirostat"):
        _leave_out(values, {_SPELLINGS.get(name, name) for name in fields.samplers})
    return SamplingOptions(**values, logit_bias=_bias(fields))


def bounded(number: Number, least: float, most: float) -> int:
    """The number clamped to its bounds; an integer if the bounds are."""
    cut = max(least, min(most, number))
    return int(cut) if isinstance(least, int) else cast("int", cut)


def _leave_out(values: dict[str, Any], named: set[str]) -> None:
    for sampler, off in _OFF.items():
        if sampler not in named:
            values |= off
    if "infill" in named:
        values["min_p"] = max(_LIKELY, values.get("min_p", 0.0))


def text_biases(fields: SamplingFields) -> dict[str, float]:
    """The biases of `logit_bias` that name a text, whose tokens all get them.

    Raises `InvalidBody` where there is too much text.
    """
    biases = {token: bias for token, bias in _pairs(fields) if _is_text(token)}
    if len(biases) > MAX_BIASED_TEXTS or any(len(text) > LONGEST_TEXT for text in biases):
        raise InvalidBody(
            f"'logit_bias' may name at most {MAX_BIASED_TEXTS} texts, "
            f"each of at most {LONGEST_TEXT} characters.",
            param="logit_bias",
        )
    return biases


def _bias(fields: SamplingFields) -> dict[int, float] | None:
    if fields.logit_bias is None:
        return None
    return {_token(token): bias for token, bias in _pairs(fields) if not _is_text(token)}


def _pairs(fields: SamplingFields) -> Iterator[tuple[Any, float]]:
    """The tokens and texts, each with its bias; llama-server ignores values that are no bias."""
    given = fields.logit_bias or {}
    pairs = given.items() if isinstance(given, dict) else (p for p in given if len(p) == 2)
    for token, bias in pairs:
        if bias is not True and not isinstance(bias, str):
            number = _BANNED if bias is False else bounded(bias, -100.0, 100.0)
            yield token, float(number)


def _is_text(token: object) -> TypeGuard[str]:
    return isinstance(token, str) and not (token.isascii() and token.isdigit())


def _token(token: object) -> int:
    text = str(token)
    whole = not isinstance(token, bool | float) and text.isascii() and text.isdigit()
    if whole and len(text) <= 10 and int(text) <= LARGEST_TOKEN_ID:
        return int(text)
    raise InvalidBody(
        f"'logit_bias' names {text[:40]!r}, which is not the number of a token.",
        hint="Ask /tokenize for the numbers of a text's tokens.",
        param="logit_bias",
    )
