"""What a request may say about the form of its answer, in the words of several servers."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.sampling_params import Grammar, GrammarKind

from ..errors import InvalidBody

MAX_CHOICES = 1024
ANY_OBJECT = '{"type":"object"}'

# Every rule of a GBNF grammar is written so, and none of Lark.
_GBNF_RULE = re.compile(r"^[ \t]*[A-Za-z][\w-]*[ \t]*::=", re.MULTILINE)

GrammarText = Annotated[str, Meta(min_length=1)]
Choice = Annotated[str, Meta(min_length=1)]
Choices = Annotated[list[Choice], Meta(min_length=1, max_length=MAX_CHOICES)]


class JsonSchemaFormat(msgspec.Struct):
    """OpenAI's `json_schema`, enforced to the letter if `strict`, else as far as can be."""

    name: str
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
    """A grammar in one of two notations, told apart by how they write a rule."""
    if not text:
        return None
    kind = GrammarKind.GBNF if _GBNF_RULE.search(text) else GrammarKind.LARK
    return Grammar(kind, text, param=param)


def only_one(grammars: list[Grammar | None]) -> Grammar | None:
    """The one that was asked for; raises `InvalidBody` where two fields ask for one."""
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
    """A schema as it came, or as vLLM takes it, too: as a string that holds it."""
    text = bytes(raw).decode().strip()
    if text.startswith('"'):
        text = msgspec.json.decode(text, type=str).strip()
    return None if text in ("", "null") else text
