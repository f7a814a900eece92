"""Detection of JSON schemas that no finite value matches."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ingle.backends.text.structured_output.json_schema_check import check_schema

SELF = {"$ref": "#"}
NODE = {"$ref": "#/$defs/node"}


def obj(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


INFINITE: list[dict[str, Any]] = [
    SELF,
    obj(["a"], a=SELF),
    obj(["a", "b"], a={"type": "string"}, b={"anyOf": [SELF, {"allOf": [SELF]}]}),
    {"type": "array", "minItems": 1, "items": SELF},
    {"type": "array", "minItems": 2, "prefixItems": [{}], "items": SELF},
    {"type": "array", "minItems": 1, "prefixItems": [SELF]},
    {"type": ["object", "array"], "required": ["a"], "properties": {"a": SELF}, "minItems": 1}
    | {"items": SELF},
    {"$defs": {"node": obj(["next"], next=NODE)}, **NODE},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"type": "object", "required": ["x"], "additionalProperties": SELF},
    {"$defs": {"a/b~c": obj(["x"], x={"$ref": "#/$defs/a~1b~0c"})}, "$ref": "#/$defs/a~1b~0c"},
    {"oneOf": [obj(["x"], x=SELF), obj(["y"], y=SELF)]},
]

FINITE: list[Any] = [
    {},
    {"type": "string"},
    obj([], a=SELF),
    obj(["a"], a={"anyOf": [SELF, {"type": "null"}]}),
    obj(["a"], a={"type": "array", "items": SELF}),
    {"type": "array", "items": SELF},
    {"type": ["object", "null"], "required": ["a"], "properties": {"a": SELF}},
    {"required": ["a"], "properties": {"a": SELF}},
    {"$defs": {"node": obj(["v"], v={"type": "integer"}, next=NODE)}, **NODE},
    {"const": {"$ref": "#"}},
    {"$ref": "#/nowhere"},
    {"$ref": "https://example.com/schema"},
    {"$defs": {f"d{i}": obj(["x"], x={"$ref": f"#/$defs/d{i + 1}"}) for i in range(200)}}
    | {"$ref": "#/$defs/d0"},
]


@pytest.mark.parametrize("schema", INFINITE, ids=json.dumps)
def test_schema_that_requires_itself_is_rejected(schema: Any) -> None:
    with pytest.raises(ValueError, match="requires itself"):
        check_schema(json.dumps(schema))


@pytest.mark.parametrize("schema", FINITE, ids=lambda schema: json.dumps(schema)[:80])
def test_satisfiable_schema_is_accepted(schema: Any) -> None:
    check_schema(json.dumps(schema))


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", '"x"', "null", "nan", "true"])
def test_invalid_schema_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_schema(text)


def test_deep_schemas_are_rejected_and_cyclic_ones_are_fast() -> None:
    with pytest.raises(ValueError, match="deeply"):
        check_schema('{"items":' * 100_000 + "{}" + "}" * 100_000)
    refs = [{"$ref": f"#/allOf/{i}"} for i in range(5000)]
    started = time.process_time()
    check_schema(json.dumps({"allOf": refs[1:] + refs[:1]}))
    assert time.process_time() - started < 5, "the check stops early"
