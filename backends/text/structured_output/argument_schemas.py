"""Argument schemas of tools, as far as a grammar can enforce them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ...base.conversation import Tool
from ...base.errors import RequestRejected
from ..tool_calls.argument_types import json_fields
from .json_schema_check import check_schema

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

_CACHED = 512
ONE_LINE: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}
"""Options of llguidance for JSON on one line, with spaces after commas and colons only.

With free blanks, a small model spends most of its tokens on them.
"""
_FREE = {"whitespace_flexible": True, "lenient": True}


def argument_schema(tool: Tool, *, flexible: bool = False) -> str:
    """Return a schema as JSON for `%json`; any object if the tool's cannot be enforced.

    Blanks are free if `flexible`. Raises `RequestRejected` for a strict tool whose schema cannot be
    enforced.
    """
    if not flexible:
        return _enforceable(tool)
    schema = json.loads(_enforceable(msgspec.structs.replace(tool, strict=False)))
    return json.dumps({**schema, "x-guidance": _FREE})


def parameter_schema(tool: Tool, name: str) -> str:
    """Return the JSON of the schema of one parameter; its references stay valid."""
    text = argument_schema(tool)
    whole = json.loads(text, object_hook=_relocated)
    guidance = whole.pop("x-guidance")
    fields = json_fields(whole["properties"][name])
    if "$ref" in text:
        fields = {**fields, "$defs": {"tool": whole}}
    return json.dumps({**fields, "x-guidance": guidance})


def _relocated(fields: dict[str, Any]) -> dict[str, Any]:
    """Return one object of a schema, with a reference for a document with it in `#/$defs/tool`."""
    reference = fields.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        return {**fields, "$ref": f"#/$defs/tool{reference[1:]}"}
    return fields


@lru_cache(_CACHED)
def _enforceable(tool: Tool) -> str:
    try:
        schema = _object_schema(tool.parameters)
        text = _guided(schema, lenient=not tool.strict)
        reason = _refusal(text)
    except (ValueError, RecursionError) as error:
        text, reason = "", str(error)
    if reason and tool.strict:
        raise RequestRejected(
            f"The parameters of the tool {tool.name!r} cannot be enforced strictly: {reason}.",
            hint="Simplify its schema, or leave 'strict' out.",
            code="invalid_function_parameters",
            param="tools",
        )
    return _guided({"type": "object"}, lenient=True) if reason else text


def _object_schema(text: str) -> dict[str, Any]:
    """Parse a tool's schema; raises unless it describes an object."""
    schema = json.loads(text or "{}")
    if not isinstance(schema, dict):
        raise ValueError("it must be an object")
    fields = cast("dict[str, Any]", schema)
    if not fields.keys() & {"anyOf", "oneOf", "allOf", "$ref"}:
        fields = {**fields, "type": "object"}
    return fields


def _guided(schema: dict[str, Any], *, lenient: bool) -> str:
    return json.dumps({**schema, "x-guidance": {**ONE_LINE, "lenient": lenient}})


def _refusal(text: str) -> str:
    """Return why a grammar cannot enforce the schema; "" if it can."""
    from llguidance import LLMatcher

    check_schema(text)
    found = LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(f"start: %json {text}"))
    return " ".join(found.split())[:300].rstrip(". ")
