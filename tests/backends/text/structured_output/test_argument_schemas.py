"""Schemas of single parameters: references to other parts of the tool's schema stay valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingle.backends.base.conversation import Tool
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.structured_output.argument_schemas import parameter_schema
from ingle.backends.text.structured_output.grammar_compiler import GrammarCompiler

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "same": {"$ref": "#/properties/count"},
        "number": {"$ref": "#/properties/count/anyOf/0"},
        "flags": {"type": "array", "items": {"$ref": "#/$defs/flag"}},
        "child": {"$ref": "#"},
    },
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {"flag": {"type": "boolean"}},
}


def accepts(schema: str, text: str) -> bool:
    """Whether the grammar of a schema accepts the text as a beginning."""
    compiled = GrammarCompiler(ByteTokenizer()).compile(
        Grammar(GrammarKind.LARK, f"start: %json {schema}")
    )
    for byte in text.encode():
        if not compiled.allows(byte):
            return False
        compiled.consume(byte)
    return True


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("same", "5", '"5"'),
        ("number", "5", "null"),
        ("flags", "[true]", "[5]"),
        ("child", '{"count": 1, "child": {"count": null', '{"flags"'),
    ],
)
def test_parameter_schema_resolves_references(name: str, valid: str, invalid: str) -> None:
    schema = parameter_schema(Tool("t", parameters=json.dumps(SCHEMA)), name)
    assert accepts(schema, valid)
    assert not accepts(schema, invalid)
