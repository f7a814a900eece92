"""Sampling parameters of a request, and the grammar that constrains its answer."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, get_type_hints

import msgspec

from .sampling_option import LARGEST, TINY, SamplingOption

_OPENAI_PENALTY = SamplingOption(
    bounds=(-2.0, 2.0),
    off=0.0,
    llama_bounds=(-10.0, 10.0),
    ollama_bounds=(-100.0, 100.0),
    llama_sampler="penalties",
    stage="adjust",
    in_chat=True,
)


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the next token is sampled; `temperature` 0 is greedy.

    The annotation of a field is the row of `SAMPLING_OPTIONS` that protocols and samplers use.
    The samplers run in llama.cpp's order: `logit_bias`, penalties, DRY, `top_n_sigma`, `top_k`,
    `typical_p`, `top_p`, `min_p`, XTC, temperature (`dynatemp_range` around it), then the draw.
    `mirostat` 1 or 2 replaces everything between DRY and the draw except the temperature.

    Penalties count the last `repeat_last_n` generated tokens (-1: all of them) and never the
    prompt, so that an answer may quote it. DRY looks back `dry_penalty_last_n` tokens (-1: the
    whole context), including the prompt, as llama-server does.
    """

    temperature: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 2.0),
            off=1.0,
            llama_bounds=(0.0, 10.0),
            ollama_bounds=(0.0, 100.0),
            llama_sampler="temperature",
            in_chat=True,
        ),
    ] = 0.8
    top_p: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 1.0),
            exclusive=True,
            off=1.0,
            llama_bounds=(TINY, 1.0),
            ollama_bounds=(TINY, 1.0),
            llama_sampler="top_p",
            in_chat=True,
        ),
    ] = 0.95
    top_k: Annotated[
        int,
        SamplingOption(
            bounds=(-1, LARGEST),
            is_integer=True,
            off=0,
            is_off_below_zero=True,
            llama_bounds=(0, LARGEST),
            ollama_bounds=(0, LARGEST),
            llama_sampler="top_k",
            in_chat=True,
            description="0 and -1 are off",
        ),
    ] = 40
    min_p: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 1.0),
            off=0.0,
            ollama_bounds=(0.0, 1.0),
            llama_sampler="min_p",
            in_chat=True,
        ),
    ] = 0.05
    typical_p: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 1.0),
            exclusive=True,
            off=1.0,
            llama_bounds=(TINY, 1.0),
            ollama_bounds=(TINY, 1.0),
            llama_sampler="typ_p",
            description="1 is off",
        ),
    ] = 1.0
    top_n_sigma: Annotated[
        float,
        SamplingOption(
            bounds=(-1.0, 100.0),
            off=-1.0,
            is_off_below_zero=True,
            llama_sampler="top_n_sigma",
            description="0 and below are off",
        ),
    ] = -1.0
    xtc_probability: Annotated[
        float, SamplingOption(bounds=(0.0, 1.0), off=0.0, llama_sampler="xtc")
    ] = 0.0
    xtc_threshold: Annotated[
        float, SamplingOption(bounds=(0.0, 1.0), detail_of="xtc_probability")
    ] = 0.1
    dynatemp_range: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 2.0),
            off=0.0,
            llama_bounds=(0.0, 10.0),
            llama_sampler="temperature",
            description="0 is off",
        ),
    ] = 0.0
    dynatemp_exponent: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 10.0),
            exclusive=True,
            detail_of="dynatemp_range",
            llama_bounds=(0.01, 10.0),
        ),
    ] = 1.0
    mirostat: Annotated[
        int,
        SamplingOption(
            bounds=(0, 2), is_integer=True, off=0, ollama_bounds=(0, 2), description="0 is off"
        ),
    ] = 0
    mirostat_tau: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 100.0),
            detail_of="mirostat",
            ollama_bounds=(0.0, 100.0),
            description="bits",
        ),
    ] = 5.0
    mirostat_eta: Annotated[
        float, SamplingOption(bounds=(0.0, 1.0), detail_of="mirostat", ollama_bounds=(0.0, 1.0))
    ] = 0.1
    repeat_penalty: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 10.0),
            exclusive=True,
            off=1.0,
            llama_bounds=(0.01, 10.0),
            ollama_bounds=(0.01, 100.0),
            llama_sampler="penalties",
            stage="adjust",
            in_chat=True,
            description="1 is off",
        ),
    ] = 1.0
    frequency_penalty: Annotated[float, _OPENAI_PENALTY] = 0.0
    presence_penalty: Annotated[float, _OPENAI_PENALTY] = 0.0
    repeat_last_n: Annotated[
        int,
        SamplingOption(
            bounds=(-1, LARGEST),
            is_integer=True,
            detail_of="repeat_penalty",
            ollama_bounds=(-1, LARGEST),
            description="0 is off, -1 is all",
        ),
    ] = -1
    dry_multiplier: Annotated[
        float,
        SamplingOption(
            bounds=(0.0, 100.0),
            off=0.0,
            llama_sampler="dry",
            stage="adjust",
            description="0 is off",
        ),
    ] = 0.0
    dry_base: Annotated[float, SamplingOption(bounds=(1.0, 100.0), detail_of="dry_multiplier")] = (
        1.75
    )
    dry_allowed_length: Annotated[
        int, SamplingOption(bounds=(0, LARGEST), is_integer=True, detail_of="dry_multiplier")
    ] = 2
    dry_penalty_last_n: Annotated[
        int,
        SamplingOption(
            bounds=(-1, LARGEST),
            is_integer=True,
            detail_of="dry_multiplier",
            description="0 is off, -1 is all",
        ),
    ] = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    logit_bias: dict[int, float] = {}
    seed: int | None = None

    @property
    def is_plain_greedy(self) -> bool:
        """Whether the next token is the one with the largest raw logit: no sampler is needed."""
        return (
            self.temperature <= 0
            and not self.logit_bias
            and all(getattr(self, name) == off for name, off in _ADJUSTING)
        )

    @property
    def has_penalties(self) -> bool:
        """Whether tokens are penalised for having been generated before."""
        return self.repeat_last_n != 0 and (
            self.repeat_penalty != 1.0
            or self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
        )

    @property
    def has_dry(self) -> bool:
        """Whether repeating an earlier sequence of tokens is penalised by its length."""
        return self.dry_multiplier != 0.0 and self.dry_penalty_last_n != 0


SAMPLING_OPTIONS: Mapping[str, SamplingOption] = MappingProxyType(
    {
        field.name: option
        for field, hint in zip(
            msgspec.structs.fields(SamplingParams),
            get_type_hints(SamplingParams, include_extras=True).values(),
            strict=True,
        )
        for option in getattr(hint, "__metadata__", ())
    }
)
"""The options that are numbers, by name and in the order of `SamplingParams`."""
_DEFAULTS = SamplingParams()
_ADJUSTING = tuple(
    (name, option.off) for name, option in SAMPLING_OPTIONS.items() if option.stage == "adjust"
)


def active_options(params: SamplingParams) -> frozenset[str]:
    """Return the names of the options that affect which token is sampled.

    A detail does if its option does, and if it has another value than by default.
    """
    active = frozenset(
        name for name, option in SAMPLING_OPTIONS.items() if option.is_active(getattr(params, name))
    )
    return active.union(
        name
        for name, option in SAMPLING_OPTIONS.items()
        if option.detail_of in active and getattr(params, name) != getattr(_DEFAULTS, name)
    )


class GrammarKind(StrEnum):
    """The languages of grammars."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"
    GBNF = "gbnf"


class Grammar(msgspec.Struct, frozen=True, omit_defaults=True):
    """A grammar that the whole answer must match; `param` is the field of the request.

    Unsupported keywords of a `lenient` schema are ignored; else the request is rejected.
    """

    kind: GrammarKind
    text: str
    lenient: bool = False
    param: str = "grammar"
