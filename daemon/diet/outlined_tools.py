"""Tools by name, first sentences and required arguments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from msgspec.structs import replace

from ingle.backends.base.conversation import Tool

from .slim_tools import shortened, tool_characters

OUTLINE_CHARACTERS = 120
"""The longest description in an outline."""
_LEAST_SAVED = 150
"""Characters that an outline must be shorter by than its tool."""
_LEAST_SAVED_IN_ALL = 1_500
"""Fewer characters are not worth another turn of the model."""
_LONGEST_ENUM = 10


@lru_cache(maxsize=512)
def outline_of(tool: Tool) -> Tool:
    """Return a tool with the names and types of its required arguments only."""
    try:
        schema: Any = json.loads(tool.parameters)
    except RecursionError:
        return tool
    fields = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    properties, required = fields.get("properties"), fields.get("required")
    named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    listed = cast("list[Any]", required) if isinstance(required, list) else []
    shown = {name: _kind(named[name]) for name in listed if isinstance(name, str) and name in named}
    parameters: dict[str, Any] = {"type": "object", "properties": shown}
    if shown:
        parameters["required"] = list(shown)
    return replace(
        tool,
        description=shortened(tool.description, OUTLINE_CHARACTERS),
        parameters=json.dumps(parameters, ensure_ascii=False, separators=(",", ":")),
    )


def outlined(tools: Sequence[Tool], forced: Sequence[str]) -> dict[str, Tool]:
    """Return the outlines by the names of the tools that are longer; none if little is saved.

    Tools that must be called are not among them.
    """
    saved = {
        tool.name: tool_characters([tool]) - tool_characters([outline_of(tool)])
        for tool in tools
        if tool.name not in forced
    }
    worth = {name for name, characters in saved.items() if characters >= _LEAST_SAVED}
    if sum(saved[name] for name in worth) < _LEAST_SAVED_IN_ALL:
        return {}
    return {tool.name: outline_of(tool) for tool in tools if tool.name in worth}


def _kind(schema: Any) -> dict[str, Any]:
    """Return only the type and the few choices of an argument."""
    if not isinstance(schema, dict):
        return {}
    fields = cast("dict[str, Any]", schema)
    kind = {"type": fields["type"]} if "type" in fields else {}
    choices = fields.get("enum")
    if isinstance(choices, list) and len(cast("list[Any]", choices)) <= _LONGEST_ENUM:
        kind["enum"] = choices
    return kind
