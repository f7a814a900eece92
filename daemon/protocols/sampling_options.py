"""Sampling fields as requests carry them, and how they override what a model recommends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ingle.backends.base.sampling_params import SamplingParams

from ..errors import InvalidBody

MAX_STOPS = 16
LARGEST_TOKEN_ID = 2**31 - 1

Temperature = Annotated[float, Meta(ge=0, le=2)]
Probability = Annotated[float, Meta(gt=0, le=1)]
MinimumProbability = Annotated[float, Meta(ge=0, le=1)]
TopK = Annotated[int, Meta(ge=-1, le=2**31 - 1, description="0 and -1 are off")]
TypicalP = Annotated[float, Meta(gt=0, le=1, description="1 is off")]
Sigmas = Annotated[float, Meta(ge=-1, le=100, description="0 and below are off")]
TemperatureRange = Annotated[float, Meta(ge=0, le=2, description="0 is off")]
Exponent = Annotated[float, Meta(gt=0, le=10)]
MirostatVersion = Annotated[int, Meta(ge=0, le=2, description="0 is off")]
Surprise = Annotated[float, Meta(ge=0, le=100, description="bits")]
LookBack = Annotated[int, Meta(ge=-1, le=2**31 - 1, description="0 is off, -1 is all")]
DryMultiplier = Annotated[float, Meta(ge=0, le=100, description="0 is off")]
DryBase = Annotated[float, Meta(ge=1, le=100)]
DryLength = Annotated[int, Meta(ge=0, le=2**31 - 1)]
SequenceBreaker = Annotated[str, Meta(min_length=1, max_length=40)]
SequenceBreakers = Annotated[list[SequenceBreaker], Meta(max_length=16)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
RepeatPenalty = Annotated[float, Meta(gt=0, le=10, description="1 is off")]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Biases = Annotated[dict[str, Bias], Meta(max_length=2**16)]
TokenCount = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class SamplingOptions(msgspec.Struct, kw_only=True):
    """What a request may say about sampling; None leaves it to the model's recommendation.

    The names are OpenAI's, and llama-server's where OpenAI has none; `SamplingParams` says in which
    order they act.
    """

    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: TopK | None = None
    min_p: MinimumProbability | None = None
    typical_p: TypicalP | None = None
    top_n_sigma: Sigmas | None = None
    xtc_probability: MinimumProbability | None = None
    xtc_threshold: MinimumProbability | None = None
    dynatemp_range: TemperatureRange | None = None
    dynatemp_exponent: Exponent | None = None
    mirostat: MirostatVersion | None = None
    mirostat_tau: Surprise | None = None
    mirostat_eta: MinimumProbability | None = None
    repeat_penalty: RepeatPenalty | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repeat_last_n: LookBack | None = None
    dry_multiplier: DryMultiplier | None = None
    dry_base: DryBase | None = None
    dry_allowed_length: DryLength | None = None
    dry_penalty_last_n: LookBack | None = None
    dry_sequence_breakers: SequenceBreakers | None = None
    seed: Seed | None = None
    logit_bias: Biases | None = None


FIELDS = (
    "temperature",
    "top_p",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "dynatemp_range",
    "dynatemp_exponent",
    "mirostat_tau",
    "mirostat_eta",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
    "dry_multiplier",
    "dry_base",
)
WHOLE_FIELDS = ("top_k", "mirostat", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n")


def merge_sampling(
    options: SamplingOptions, recommended: Mapping[str, float], *, prefix: str = ""
) -> SamplingParams:
    """The request's fields over the model's over the defaults; `prefix` names the parent field."""
    values: dict[str, Any] = {
        name: float(recommended[name]) for name in FIELDS if name in recommended
    }
    values |= {name: int(recommended[name]) for name in WHOLE_FIELDS if name in recommended}
    for name in (*FIELDS, *WHOLE_FIELDS, "seed"):
        if (value := getattr(options, name)) is not None:
            values[name] = value
    if "top_k" in values:
        values["top_k"] = max(0, values["top_k"])
    if options.dry_sequence_breakers is not None:
        values["dry_sequence_breakers"] = tuple(options.dry_sequence_breakers)
    if options.logit_bias:
        values["logit_bias"] = {
            _token_id(key, prefix): bias for key, bias in options.logit_bias.items()
        }
    return SamplingParams(**values)


def stop_strings(stop: str | list[str] | None, param: str = "stop") -> list[str]:
    """At most sixteen stop strings, none of them empty; `param` is the field they are in."""
    stops = [stop] if isinstance(stop, str) else stop or []
    if len(stops) > MAX_STOPS:
        raise InvalidBody(f"'{param}' may hold at most {MAX_STOPS} strings.", param=param)
    if not all(stops):
        raise InvalidBody(
            f"'{param}' may not hold an empty string.",
            hint="It would end every answer at once.",
            param=param,
        )
    return stops


def _token_id(key: str, prefix: str) -> int:
    if key.isascii() and key.isdigit() and len(key) <= 10 and int(key) <= LARGEST_TOKEN_ID:
        return int(key)
    raise InvalidBody(
        f"'{prefix}logit_bias' has the key {key[:20]!r}, which is not a token id.",
        hint="Keys are numbers of tokens, written as strings.",
        param=f"{prefix}logit_bias",
    )
