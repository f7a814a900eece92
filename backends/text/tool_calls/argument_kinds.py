"""What kind of value a parameter takes, where calls write values without saying so."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from .json_repair import plain_value, quoted, read_value
from .text_source import TextSource

_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


def kinds(schema: object, root: dict[str, Any]) -> frozenset[str]:
    """The JSON types that a schema allows; all of them where it does not say."""
    found: set[str] = set()
    seen: set[int] = set()
    ahead = [schema]
    while ahead:
        each = ahead.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        named, more = _own_kinds(each, root)
        found.update(named)
        ahead += more
    return frozenset(found & _ALL) or _ALL


def _own_kinds(schema: object, root: dict[str, Any]) -> tuple[Iterable[str], list[object]]:
    """The types that a schema names itself, or the schemas that name them."""
    if not isinstance(schema, dict):
        return _ALL, []
    fields = cast("dict[str, Any]", schema)
    if "const" in fields or isinstance(fields.get("enum"), list):
        values = [fields["const"]] if "const" in fields else fields["enum"]
        return [_kind(value) for value in cast("list[Any]", values)], []
    named = fields.get("type")
    if isinstance(named, str):
        return [named], []
    if isinstance(named, list):
        return [name for name in cast("list[Any]", named) if isinstance(name, str)], []
    if "$ref" in fields:
        return [], [_resolve(fields["$ref"], root)]
    choices = fields.get("anyOf") or fields.get("oneOf") or fields.get("allOf")
    if isinstance(choices, list) and choices:
        return [], cast("list[object]", choices)
    return _ALL, []


def texts(schema: object) -> list[str]:
    """The texts that a value must be one of; none where anything else may be a value."""
    if not isinstance(schema, dict):
        return []
    fields = cast("dict[str, Any]", schema)
    values = [fields["const"]] if "const" in fields else fields.get("enum")
    listed = cast("list[Any]", values) if isinstance(values, list) else []
    found = [value for value in listed if isinstance(value, str)]
    return found if len(found) == len(listed) else []


def is_text(allowed: frozenset[str]) -> bool:
    """Whether every value is a text, so that it can be passed on while it comes."""
    return allowed == frozenset({"string"})


def typed(text: str, allowed: frozenset[str]) -> str:
    """The JSON for a value that was written without quotes."""
    bare = text.strip()
    value = plain_value(bare) if bare[:1] not in ("{", "[", '"', "'") else _repaired(bare)
    kind = _kind(json.loads(value))
    if kind in allowed and (kind in ("object", "array", "null") or "string" not in allowed):
        return value
    if "string" in allowed:
        if allowed == _ALL and kind != "string":
            return value
        return quoted(text)
    if kind == "integer" and "number" in allowed:
        return value
    return quoted(text) if kind == "string" and not bare.startswith(('"', "'")) else value


def _repaired(text: str) -> str:
    """A value that should be JSON; a text in quotes or with more behind it is left as it is."""
    pieces: list[str] = []
    source = TextSource(text, ended=True)
    for _ in read_value(source, pieces.append):
        break  # it has no more to wait for
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


def _resolve(reference: object, root: dict[str, Any]) -> object:
    """What a reference within the schema points to; None where it does not."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    target: object = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        known = cast("dict[str, object]", target) if isinstance(target, dict) else {}
        target = known.get(name)
    return target
