"""Determines the JSON type of arguments in formats that write values without type."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import unquote

from ..streaming.json_repair import plain_value, quoted, read_value
from ..streaming.text_source import TextSource

_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


def json_fields(value: object) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def kinds(schema: object, root: dict[str, Any]) -> frozenset[str]:
    """Return the JSON types that a schema allows; all if it does not say."""
    found = {name for each in alternatives(schema, root) for name in _own_kinds(each)}
    return frozenset(found & _ALL) or _ALL


def alternatives(schema: object, root: dict[str, Any]) -> list[object]:
    """Return the schemas in references and choices; the schema itself without any."""
    found: list[object] = []
    seen: set[int] = set()
    ahead = [schema]
    while ahead:
        each = ahead.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        more = _choices(each, root)
        found += [] if more else [each]
        ahead += more
    return found


def _choices(schema: object, root: dict[str, Any]) -> list[object]:
    """Return the schemas that a schema without a type of its own refers to."""
    fields = json_fields(schema)
    if fields.keys() & {"const", "enum", "type"}:
        return []
    if "$ref" in fields:
        return [reference_target(fields["$ref"], root)]
    choices = fields.get("anyOf") or fields.get("oneOf") or fields.get("allOf")
    return cast("list[object]", choices) if isinstance(choices, list) else []


def _own_kinds(schema: object) -> Iterable[str]:
    """Return the types that a schema itself names; all if it names none."""
    fields = json_fields(schema)
    if "const" in fields:
        return [_kind(fields["const"])]
    listed, named = fields.get("enum"), fields.get("type")
    if isinstance(listed, list):
        return [_kind(value) for value in cast("list[Any]", listed)]
    if isinstance(named, list):
        return [name for name in cast("list[Any]", named) if isinstance(name, str)]
    return [named] if isinstance(named, str) else _ALL


def texts(schema: object) -> list[str]:
    """Return the enumerated texts of a value; none if other values are allowed."""
    fields = json_fields(schema)
    values = [fields["const"]] if "const" in fields else fields.get("enum")
    listed = cast("list[Any]", values) if isinstance(values, list) else []
    found = [value for value in listed if isinstance(value, str)]
    return found if len(found) == len(listed) else []


def typed(text: str, allowed: frozenset[str]) -> str:
    """Return the JSON of a value written without quotes.

    If it may be a text, it counts as another type only in exactly that type's form.
    """
    bare = text.strip()
    brackets = bare[:1] + bare[-1:]
    value = _repaired(bare) if bare[:1] in ("{", "[", '"', "'") else plain_value(bare)
    kind = _kind(json.loads(value))
    if "string" in allowed:
        exact = brackets in ("{}", "[]") or value == bare or kind == "null"
        return value if exact and kind in allowed - {"string"} else quoted(text)
    if kind == "string" and "string" not in allowed and bare[:1] not in ('"', "'"):
        return quoted(text)
    return value


def _repaired(text: str) -> str:
    """Repair a value that should be JSON; a quoted text, or one with text after it, is
    unchanged.
    """
    pieces: list[str] = []
    source = TextSource(text, ended=True)
    for _ in read_value(source, pieces.append):
        break  # the source has ended
    behind = source.take(len(text)).strip()
    return quoted(text) if behind else "".join(pieces)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "string"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def reference_target(reference: object, root: object) -> object:
    """Return what a JSON pointer in a URI fragment refers to within `root`; None if missing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target = root
    for step in unquote(reference).split("/")[1:]:
        if isinstance(target, list):
            try:
                target = cast("list[object]", target)[int(step)]
            except (ValueError, IndexError):
                return None
        else:
            target = json_fields(target).get(step.replace("~1", "/").replace("~0", "~"))
    return target
