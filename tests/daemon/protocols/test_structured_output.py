"""Conversion of structured output fields of all protocols to grammars."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.request_options import (
    ResponseFormat,
    StructuredOutputs,
    format_grammar,
    response_format_grammar,
    structured_outputs_grammar,
    text_grammar,
)

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"enum": ["é", 1e3]}}}
OBJECT = GrammarKind.JSON_SCHEMA, {"type": "object"}


def parsed(grammar: Grammar | None) -> tuple[GrammarKind, Any] | None:
    """A grammar's kind and text, parsed if it is a JSON schema."""
    if grammar is None:
        return None
    is_schema = grammar.kind is GrammarKind.JSON_SCHEMA
    return grammar.kind, json.loads(grammar.text) if is_schema else grammar.text


def response_format(**fields: Any) -> Grammar | None:
    return response_format_grammar(msgspec.json.decode(json.dumps(fields), type=ResponseFormat))


def structured(**fields: Any) -> Grammar | None:
    return structured_outputs_grammar(
        msgspec.json.decode(json.dumps(fields), type=StructuredOutputs)
    )


def test_response_format() -> None:
    assert response_format(type="text") is None
    assert parsed(response_format(type="json_object")) == OBJECT
    named: dict[str, Any] = {"name": "n", "schema": SCHEMA, "strict": True}
    grammar = response_format(type="json_schema", json_schema=named)
    assert parsed(grammar) == (GrammarKind.JSON_SCHEMA, SCHEMA)
    assert grammar is not None
    assert (grammar.param, grammar.lenient) == ("response_format", False)
    # Properties are generated in the order of the schema, so that it must not be reordered.
    assert grammar.text.index('"b"') < grammar.text.index('"a"')
    assert parsed(response_format(type="json_schema", json_schema={"name": "n"})) == OBJECT
    assert parsed(response_format(type="json_schema", json_schema={})) == OBJECT
    empty = {"name": "n", "schema": None}
    assert parsed(response_format(type="json_schema", json_schema=empty)) == OBJECT


@pytest.mark.parametrize(("strict", "lenient"), [(True, False), (None, True), (False, True)])
def test_a_schema_is_lenient_unless_it_is_strict(strict: bool | None, lenient: bool) -> None:
    named: dict[str, Any] = {"name": "n", "schema": SCHEMA, "strict": strict}
    grammar = response_format(type="json_schema", json_schema=named)
    assert grammar is not None
    assert grammar.lenient is lenient


def test_vllm_structured_outputs() -> None:
    assert structured() is None
    assert structured(json_object=False) is None
    assert parsed(structured(json=SCHEMA)) == (GrammarKind.JSON_SCHEMA, SCHEMA)
    assert parsed(structured(json=json.dumps(SCHEMA))) == (GrammarKind.JSON_SCHEMA, SCHEMA)
    assert parsed(structured(json_object=True)) == OBJECT
    assert parsed(structured(regex="a+")) == (GrammarKind.REGEX, "a+")
    assert parsed(structured(choice=["a b", 'say "hé"\n'])) == (
        GrammarKind.LARK,
        r'start: "a b" | "say \"hé\"\n"',
    )
    grammar = structured(grammar='root ::= "x"')
    assert grammar == Grammar(GrammarKind.GBNF, 'root ::= "x"', param="structured_outputs.grammar")


def test_grammar_kind_is_detected() -> None:
    assert text_grammar(None) is None
    assert text_grammar("") is None
    for text, kind in (
        ('root ::= "x"', GrammarKind.GBNF),
        ("# a comment\n\n  my-rule::= x\nroot ::= my-rule", GrammarKind.GBNF),
        ('start: "x"', GrammarKind.LARK),
        ('start: "a ::= b"', GrammarKind.LARK),
        ("%llguidance {}\nstart: /x/", GrammarKind.LARK),
    ):
        grammar = text_grammar(text)
        assert grammar is not None
        assert grammar.kind is kind, text


def test_native_format_field() -> None:
    assert format_grammar(None) is None
    assert parsed(format_grammar("json")) == OBJECT
    grammar = format_grammar(StructuredOutputs(regex="a"))
    assert grammar == Grammar(GrammarKind.REGEX, "a", param="format.regex")


def test_two_structured_output_fields_are_refused() -> None:
    with pytest.raises(InvalidBody, match=r"json' and 'structured_outputs\.regex"):
        structured(json=SCHEMA, regex="a")
