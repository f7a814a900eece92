"""Argument schemas of tools, reduced to what a grammar can enforce."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, cast

import msgspec

from ...base.conversation import Tool
from ...base.errors import RequestRejected
from .json_schema_check import check_schema

_CACHED = 512
_GUIDANCE = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}

_FREE = {"whitespace_flexible": True, "lenient": True}


class ArgumentSchemas:
    """Checks and caches schemas; used from one thread."""

    def __init__(self) -> None:
        self._checked: OrderedDict[tuple[str, bool], str] = OrderedDict()

    def of(self, tool: Tool, *, flexible: bool = False) -> str:
        """Return a schema as JSON for `%json`; any object if the tool's cannot be enforced.

        Blanks are free if `flexible`. Raises `RequestRejected` for a strict tool whose schema
        cannot be enforced.
        """
        if flexible:
            schema = json.loads(self.of(msgspec.structs.replace(tool, strict=False)))
            return json.dumps({**schema, "x-guidance": _FREE})
        key = tool.parameters, tool.strict
        if key not in self._checked:
            self._checked[key] = self._check(tool)
            if len(self._checked) > _CACHED:
                self._checked.popitem(last=False)
        self._checked.move_to_end(key)
        return self._checked[key]

    def parsed(self, tool: Tool) -> dict[str, Any]:
        """Return the schema of `of`, parsed."""
        return json.loads(self.of(tool))

    def parameter_schema(self, tool: Tool, name: str) -> str:
        """Return the JSON of the schema of one parameter."""
        whole = self.parsed(tool)
        shared = {key: whole[key] for key in ("$defs", "definitions") if key in whole}
        value = whole["properties"][name]
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        return json.dumps({**fields, **shared, "x-guidance": whole["x-guidance"]})

    def _check(self, tool: Tool) -> str:
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
    return json.dumps({**schema, "x-guidance": {**_GUIDANCE, "lenient": lenient}})


def _refusal(text: str) -> str:
    """Return why a grammar cannot enforce the schema; "" if it can."""
    from llguidance import LLMatcher

    check_schema(text)
    found = LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(f"start: %json {text}"))
    return " ".join(found.split())[:300].rstrip(". ")
