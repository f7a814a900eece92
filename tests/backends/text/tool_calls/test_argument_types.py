"""Types of argument values that are written without quotes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingle.backends.text.tool_calls.argument_types import kinds, typed

ROOT: dict[str, Any] = {
    "$defs": {
        "name": {"type": "string"},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}] * 20 + [{"type": "null"}]},
        "a/b": {"type": "boolean"},
        "a b": {"type": "null"},
        "chain": {"$ref": "#/$defs/choice/anyOf/1"},
        "choice": {"anyOf": [{"type": "integer"}, {"type": "array"}]},
    },
    "type": "object",
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"enum": ["a", 1, None]}, {"string", "integer", "null"}),
        ({"const": True}, {"boolean"}),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/name"}]}, {"string"}),
        ({"$ref": "#/$defs/loop"}, {"null"}),
        ({"$ref": "#/$defs/a~1b"}, {"boolean"}),
        ({"$ref": "#/$defs/a%20b"}, {"null"}),
        ({"$ref": "#/$defs/choice/anyOf/0"}, {"integer"}),
        ({"$ref": "#/$defs/chain"}, {"array"}),
        ({"$ref": "#"}, {"object"}),
    ],
)
def test_types_allowed_by_a_schema(schema: Any, expected: set[str]) -> None:
    assert kinds(schema, ROOT) == expected


@pytest.mark.parametrize("schema", [None, True, {}, {"type": "strin"}, {"enum": []}])
def test_schema_without_a_type_allows_every_type(schema: Any) -> None:
    assert len(kinds(schema, ROOT)) == 7


@pytest.mark.parametrize(
    "reference", [5, "x", "#x", "#/$defs/none", "#/$defs/choice/anyOf/2", "#/$defs/choice/anyOf/x"]
)
def test_reference_without_a_target_allows_every_type(reference: object) -> None:
    assert len(kinds({"$ref": reference}, ROOT)) == 7


@pytest.mark.parametrize(
    ("text", "allowed", "value"),
    [
        ("5", "integer", 5),
        ("5", "string", "5"),
        ("true", "string", "true"),
        ("True", "boolean", True),
        ("2", "number", 2),
        ("two", "number", "two"),
        ("null", "string null", None),
        ("None", "integer null", None),
        ("5", "string integer", 5),
        ("2 dollars", "string integer", "2 dollars"),
        ("{not JSON", "string object", "{not JSON"),
        ('["a", 1,]', "array", ["a", 1]),
        ("['a']", "string array", ["a"]),
        ("[draft] mail", "string array", "[draft] mail"),
        ('{"a": tru', "object", {"a": "tru"}),
        ("07", "string integer", "07"),
        ('"x"', "integer", "x"),
    ],
)
def test_unquoted_values_are_typed_by_the_schema(text: str, allowed: str, value: Any) -> None:
    assert json.loads(typed(text, frozenset(allowed.split()))) == value


def test_unquoted_values_without_a_schema_are_typed_by_content() -> None:
    any_type = kinds(None, {})
    assert json.loads(typed("5", any_type)) == 5
    assert json.loads(typed("five", any_type)) == "five"
    assert json.loads(typed('{"a": 1}', any_type)) == {"a": 1}
