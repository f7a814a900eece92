"""Descriptions and schemas of tools in fewer words."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, cast

from msgspec.structs import replace

from ingle.backends.base.conversation import Tool
from ingle.backends.base.requests import GenerateRequest

TOOL_CHARACTERS = 400
FIELD_CHARACTERS = 160
"""The longest descriptions of a tool and of a field of its arguments; longer ones are cut."""
_NOTES = ("$schema", "$id", "$comment", "title", "examples", "example", "markdownDescription")
"""Keywords that say nothing of the arguments that is not in their names and types."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value has a schema for each name."""
_LARGEST_INTEGER = 2**53 - 1
"""What generators of schemas write as the bound of any integer."""
_BOUNDS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
_LITERAL = ("enum", "const", "default", "required")
_END = re.compile(r"[.!?…](?=\s|$)|(?=\n)")
_EXAMPLES = re.compile(r"\s*<examples?>.*?</examples?>", re.DOTALL | re.IGNORECASE)


@lru_cache(maxsize=512)
def slim_tool(tool: Tool) -> Tool:
    """Return a tool with the same name, fields and types, and shorter descriptions.

    Of a `strict` tool, whose arguments match its schema exactly, only words are left out.
    """
    try:
        slim = _slim_schema(json.loads(tool.parameters), strict=tool.strict)
    except RecursionError:
        return tool
    return replace(
        tool,
        description=shortened(_EXAMPLES.sub("", tool.description), TOOL_CHARACTERS),
        parameters=json.dumps(slim, ensure_ascii=False, separators=(",", ":")),
    )


def tool_characters(tools: list[Tool]) -> int:
    """Return the length of all that tools say."""
    return sum(len(tool.name) + len(tool.description) + len(tool.parameters) for tool in tools)


def prompt_characters(request: GenerateRequest) -> int:
    """Return the length of the messages and of the tools that a model is shown."""
    said = sum(len(message.content) for message in request.messages or ())
    return said + tool_characters(request.shown_tools or request.tools)


def shortened(text: str, most: int) -> str:
    """Return the first sentences of a text, at most so many characters.

    A first sentence that is longer is cut between two words.
    """
    text = text.strip()
    if len(text) <= most:
        return text
    ends = [found.end() for found in _END.finditer(text, 0, most)]
    if kept := text[: ends[-1] if ends else 0].strip():
        return kept
    return text[: most - 1].rsplit(maxsplit=1)[0] + "…"


def _slim_schema(schema: Any, *, strict: bool) -> Any:
    """Return a schema without notes and noise."""
    if isinstance(schema, list):
        return [_slim_schema(each, strict=strict) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    slim: dict[str, Any] = {}
    for keyword, value in cast("dict[str, Any]", schema).items():
        if keyword in _NOTES or (not strict and _is_noise(keyword, value)):
            continue
        if keyword == "description" and isinstance(value, str):
            slim[keyword] = shortened(value, FIELD_CHARACTERS)
        elif keyword in _NAMED and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            slim[keyword] = {name: _slim_schema(v, strict=strict) for name, v in named.items()}
        elif keyword in _LITERAL:
            slim[keyword] = value
        else:
            slim[keyword] = _slim_schema(value, strict=strict)
    return slim


def _is_noise(keyword: str, value: Any) -> bool:
    """Whether a keyword allows everything, or refuses only what no model writes."""
    match keyword:
        case "additionalProperties":
            return value in (True, False, {})
        case "required":
            return value == []
        case _:
            return keyword in _BOUNDS and value in (_LARGEST_INTEGER, -_LARGEST_INTEGER)
