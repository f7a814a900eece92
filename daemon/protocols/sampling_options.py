"""Sampling fields as requests carry them, and how they override what a model recommends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.sampling_option import SamplingOption
from ingle.backends.base.sampling_params import SAMPLING_OPTIONS, SamplingParams

from ..errors import InvalidBody

LARGEST_TOKEN_ID = 2**31 - 1
_MOST_TOKENS = 2**31 - 1

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
_TEMPLATE_EFFORTS = {"none": None, "minimal": "low", "xhigh": "high", "max": "high"}


def template_effort(effort: str | None) -> str | None:
    """The closest of the three words that templates know: low, medium, high."""
    return effort if effort is None else _TEMPLATE_EFFORTS.get(effort, effort)


def token_limit(*wanted: float | None) -> int | None:
    """The first given number of tokens, within the bounds of the engine; None for no limit."""
    given = next((number for number in wanted if number is not None), -1)
    return None if given < 0 else int(min(given, _MOST_TOKENS))


def check_token_ids(tokens: Iterable[int], param: str) -> None:
    """Raise `InvalidBody` if one of the tokens of the field `param` is no token id."""
    if not all(0 <= token <= LARGEST_TOKEN_ID for token in tokens):
        raise InvalidBody(f"'{param}' holds something that is no token id.", param=param)


MAX_STOPS = 16

SequenceBreaker = Annotated[str, Meta(min_length=1, max_length=40)]
SequenceBreakers = Annotated[list[SequenceBreaker], Meta(max_length=16)]
RepeatPenalty = Annotated[float, Meta(gt=0, le=10, description="1 is off")]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Biases = Annotated[dict[str, Bias], Meta(max_length=2**16)]
TokenCount = Annotated[int, Meta(ge=1, le=2**31 - 1)]


def _field_type(option: SamplingOption) -> Any:
    """The type of the option in a request, with its bounds and description for the schema."""
    low, high = option.bounds
    text = option.description or None
    if option.exclusive:
        limits = Meta(gt=low, le=high, description=text)
    else:
        limits = Meta(ge=low, le=high, description=text)
    return Annotated[int if option.is_integer else float, limits]


if TYPE_CHECKING:

    class SamplingOptions(msgspec.Struct, kw_only=True):
        """The fields that code accesses by name."""

        temperature: float | None = None
        top_p: float | None = None
        top_k: int | None = None
        min_p: float | None = None
        typical_p: float | None = None
        mirostat: int | None = None
        repeat_penalty: float | None = None
        repeat_last_n: int | None = None
        dry_sequence_breakers: SequenceBreakers | None = None
        seed: Seed | None = None
        logit_bias: Biases | None = None

else:
    SamplingOptions = msgspec.defstruct(
        "SamplingOptions",
        [
            *(
                (name, _field_type(option) | None, None)
                for name, option in SAMPLING_OPTIONS.items()
            ),
            ("dry_sequence_breakers", SequenceBreakers | None, None),
            ("seed", Seed | None, None),
            ("logit_bias", Biases | None, None),
        ],
        namespace={
            "__doc__": """What a request may set; None leaves it to the model's recommendation.

    The names are OpenAI's, and llama-server's where OpenAI has none; `SamplingParams` has the order
    in which they apply.
    """
        },
        module=__name__,
        kw_only=True,
    )


def merge_sampling(
    options: SamplingOptions, recommended: Mapping[str, float], *, prefix: str = ""
) -> SamplingParams:
    """The request's fields over the model's over the defaults; `prefix` names the parent field."""
    values: dict[str, Any] = recommended_sampling(recommended)
    for name in (*SAMPLING_OPTIONS, "seed"):
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


def recommended_sampling(recommended: Mapping[str, float]) -> dict[str, float]:
    """The sampling options among the values that a model recommends, each of its own type."""
    return {
        name: int(recommended[name]) if option.is_integer else float(recommended[name])
        for name, option in SAMPLING_OPTIONS.items()
        if name in recommended
    }


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
