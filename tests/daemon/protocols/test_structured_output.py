"""What clients say about the form of an answer, and the grammar it becomes."""

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


def said(grammar: Grammar | None) -> tuple[GrammarKind, Any] | None:
    """A grammar's kind, and its text, read as JSON where it is a schema."""
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


def test_openais_response_formats() -> None:
    assert response_format(type="text") is None
    assert said(response_format(type="json_object")) == OBJECT
    named: dict[str, Any] = {"name": "n", "schema": SCHEMA, "strict": True}
    grammar = response_format(type="json_schema", json_schema=named)
    assert said(grammar) == (GrammarKind.JSON_SCHEMA, SCHEMA)
    assert grammar is not None
    assert (grammar.param, grammar.lenient) == ("response_format", False)
    # Properties come in the order of the schema, which must therefore arrive as it was sent.
    assert grammar.text.index('"b"') < grammar.text.index('"a"')
    assert said(response_format(type="json_schema", json_schema={"name": "n"})) == OBJECT
    empty = {"name": "n", "schema": None}
    assert said(response_format(type="json_schema", json_schema=empty)) == OBJECT


@pytest.mark.parametrize(("strict", "lenient"), [(True, False), (None, True), (False, True)])
def test_a_schema_is_lenient_unless_it_is_strict(strict: bool | None, lenient: bool) -> None:
    named: dict[str, Any] = {"name": "n", "schema": SCHEMA, "strict": strict}
    grammar = response_format(type="json_schema", json_schema=named)
    assert grammar is not None
    assert grammar.lenient is lenient


def test_vllms_structured_outputs() -> None:
    assert structured() is None
    assert structured(json_object=False) is None
    assert said(structured(json=SCHEMA)) == (GrammarKind.JSON_SCHEMA, SCHEMA)
    assert said(structured(json=json.dumps(SCHEMA))) == (GrammarKind.JSON_SCHEMA, SCHEMA)
    assert said(structured(json_object=True)) == OBJECT
    assert said(structured(regex="a+")) == (GrammarKind.REGEX, "a+")
    assert said(structured(choice=["a b", 'say "hé"\n'])) == (
        GrammarKind.LARK,
        r'start: "a b" | "say \"hé\"\n"',
    )
    grammar = structured(grammar='root ::= "x"')
    assert grammar == Grammar(GrammarKind.GBNF, 'root ::= "x"', param="structured_outputs.grammar")


def test_a_grammar_is_gbnf_or_lark() -> None:
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


def test_the_native_format() -> None:
    assert format_grammar(None) is None
    assert said(format_grammar("json")) == OBJECT
    grammar = format_grammar(StructuredOutputs(regex="a"))
    assert grammar == Grammar(GrammarKind.REGEX, "a", param="format.regex")


def test_two_wishes_at_once_are_refused() -> None:
    with pytest.raises(InvalidBody, match=r"json' and 'structured_outputs\.regex"):
        structured(json=SCHEMA, regex="a")
