"""Fields of the requests of several protocols: sampling, lengths, reasoning effort, grammars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_option import SamplingOption
from ingle.backends.base.sampling_params import (
    SAMPLING_OPTIONS,
    Grammar,
    GrammarKind,
    SamplingParams,
)

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
TokenId = Annotated[int, Meta(ge=0, le=LARGEST_TOKEN_ID)]
Biases = Annotated[dict[TokenId, Bias], Meta(max_length=2**16)]
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

    class _Numbers(msgspec.Struct, kw_only=True):
        """The fields that code accesses by name."""

        temperature: float | None = None
        top_p: float | None = None
        top_k: int | None = None
        min_p: float | None = None
        typical_p: float | None = None
        mirostat: int | None = None
        repeat_penalty: float | None = None
        repeat_last_n: int | None = None

else:
    _Numbers = msgspec.defstruct(
        "_Numbers",
        [(name, _field_type(option) | None, None) for name, option in SAMPLING_OPTIONS.items()],
        kw_only=True,
    )


class SamplingOptions(_Numbers, kw_only=True):
    """The sampling options of a request; None means what the model recommends.

    The names are OpenAI's, and llama-server's where OpenAI has none; `SamplingParams` has the order
    in which they apply.
    """

    dry_sequence_breakers: SequenceBreakers | None = None
    seed: Seed | None = None
    logit_bias: Biases | None = None


def merge_sampling(options: SamplingOptions, recommended: Mapping[str, float]) -> SamplingParams:
    """Return the request's values, else the model's, else the defaults."""
    values: dict[str, Any] = recommended_sampling(recommended)
    for name in (*SAMPLING_OPTIONS, "seed"):
        if (value := getattr(options, name)) is not None:
            values[name] = value
    if "top_k" in values:
        values["top_k"] = max(0, values["top_k"])
    if options.dry_sequence_breakers is not None:
        values["dry_sequence_breakers"] = tuple(options.dry_sequence_breakers)
    if options.logit_bias:
        values["logit_bias"] = options.logit_bias
    return SamplingParams(**values)


def resampled(
    options: SamplingOptions, request: GenerateRequest, recommended: Mapping[str, float]
) -> GenerateRequest:
    """Return the request with its options laid over a model's recommended sampling."""
    return msgspec.structs.replace(request, sampling=merge_sampling(options, recommended))


def recommended_sampling(recommended: Mapping[str, float]) -> dict[str, float]:
    """The sampling options among a model's recommended values, each of its own type."""
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


MAX_CHOICES = 1024
ANY_OBJECT = '{"type":"object"}'

# Every rule of a GBNF grammar has this form, and no rule of a Lark grammar.
_GBNF_RULE = re.compile(r"^[ \t]*[A-Za-z][\w-]*[ \t]*::=", re.MULTILINE)

GrammarText = Annotated[str, Meta(min_length=1)]
Choice = Annotated[str, Meta(min_length=1)]
Choices = Annotated[list[Choice], Meta(min_length=1, max_length=MAX_CHOICES)]


class JsonSchemaFormat(msgspec.Struct):
    """OpenAI's `json_schema`, enforced to the letter if `strict`, else as far as can be.

    The name has no effect; llama-server's clients leave it out.
    """

    name: str = ""
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    strict: bool | None = None
    description: str | None = None


class ResponseFormat(msgspec.Struct):
    """OpenAI's `response_format`; llama-server takes the `schema` of a `json_object`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None
    schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class StructuredOutputs(msgspec.Struct):
    """vLLM's `structured_outputs`: exactly one of these; `grammar` is GBNF or Lark."""

    json: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    json_object: bool | None = None
    regex: GrammarText | None = None
    choice: Choices | None = None
    grammar: GrammarText | None = None


def response_format_grammar(wanted: ResponseFormat | None) -> Grammar | None:
    """The grammar of OpenAI's field; raises `InvalidBody`."""
    param = "response_format"
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        text = _schema_text(wanted.schema) or ANY_OBJECT
        return Grammar(GrammarKind.JSON_SCHEMA, text, param=param)
    if wanted.json_schema is None:
        raise InvalidBody(
            "'response_format.json_schema' is missing.", param="response_format.json_schema"
        )
    schema = wanted.json_schema
    text = _schema_text(schema.schema) or ANY_OBJECT
    return Grammar(GrammarKind.JSON_SCHEMA, text, lenient=not schema.strict, param=param)


def structured_outputs_grammar(
    wanted: StructuredOutputs | None, param: str = "structured_outputs"
) -> Grammar | None:
    """The grammar of vLLM's field; raises `InvalidBody` for more than one at once."""
    if wanted is None:
        return None
    return only_one(
        [
            schema_grammar(wanted.json, f"{param}.json"),
            schema_grammar(
                msgspec.Raw(ANY_OBJECT if wanted.json_object else ""), f"{param}.json_object"
            ),
            regex_grammar(wanted.regex, f"{param}.regex"),
            choice_grammar(wanted.choice, f"{param}.choice"),
            text_grammar(wanted.grammar, f"{param}.grammar"),
        ]
    )


def format_grammar(wanted: Literal["json"] | StructuredOutputs | None) -> Grammar | None:
    """The grammar of the native API's `format`; "json" is any object."""
    if wanted == "json":
        return Grammar(GrammarKind.JSON_SCHEMA, ANY_OBJECT, param="format")
    return structured_outputs_grammar(wanted, "format")


def schema_grammar(raw: msgspec.Raw, param: str) -> Grammar | None:
    """The grammar of a field that is a schema."""
    text = _schema_text(raw)
    return None if text is None else Grammar(GrammarKind.JSON_SCHEMA, text, param=param)


def regex_grammar(regex: str | None, param: str) -> Grammar | None:
    """The grammar of a field that is a regular expression."""
    return Grammar(GrammarKind.REGEX, regex, param=param) if regex else None


def choice_grammar(choices: Choices | None, param: str) -> Grammar | None:
    """The grammar of a field that lists the possible answers."""
    return Grammar(GrammarKind.LARK, _choice(choices), param=param) if choices else None


def text_grammar(text: str | None, param: str = "grammar") -> Grammar | None:
    """A grammar in GBNF or Lark, which differ in how they write a rule."""
    if not text:
        return None
    kind = GrammarKind.GBNF if _GBNF_RULE.search(text) else GrammarKind.LARK
    return Grammar(kind, text, param=param)


def only_one(grammars: list[Grammar | None]) -> Grammar | None:
    """Return the grammar that one field asks for, if any; raises `InvalidBody` if two fields do."""
    given = [grammar for grammar in grammars if grammar is not None]
    if len(given) > 1:
        raise InvalidBody(
            f"'{given[0].param}' and '{given[1].param}' both say what the answer must be.",
            hint="Leave one of them out.",
            param=given[1].param,
        )
    return given[0] if given else None


def _choice(choices: list[str]) -> str:
    """A Lark rule for one of several texts; its strings are written like those of JSON."""
    return "start: " + " | ".join(msgspec.json.encode(choice).decode() for choice in choices)


def _schema_text(raw: msgspec.Raw) -> str | None:
    """The text of a schema, which may also be the content of a string, as in vLLM's API."""
    text = bytes(raw).decode().strip()
    if text.startswith('"'):
        text = msgspec.json.decode(text, type=str).strip()
    return None if text in ("", "null") else text
