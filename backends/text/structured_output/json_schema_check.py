"""Finds JSON schemas that only endless values could match, which llguidance would follow for ever.

A schema is finite if some value that matches it ends. A reference is finite if its target is, so
the finite ones are found step by step, beginning with those that refer to nothing.
"""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import unquote

# Schemas to look at: more than that would take longer than the answer is worth.
_MOST = 100_000


def check_schema(text: str) -> None:
    """Raises `ValueError` with the reason where no JSON value can match the schema in `text`."""
    try:
        root = json.loads(text)
        if not isinstance(root, dict):
            raise ValueError("it must be an object")
        if "$ref" in text and not _Endless(root).is_finite():
            raise ValueError("it requires itself, so that no value could ever end")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


class _Endless:
    """Tells whether the schema `root` has values that end."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._found: dict[str, Any] = {}
        self._finite: set[str] = set()
        self._looks = 0

    def is_finite(self) -> bool:
        """True as well where it takes too long to tell."""
        while not self._ends(self._root):
            known = len(self._finite), len(self._found)
            for pointer, target in list(self._found.items()):
                if pointer not in self._finite and self._ends(target):
                    self._finite.add(pointer)
            if known == (len(self._finite), len(self._found)):
                return False
        return True

    def _ends(self, schema: Any) -> bool:
        self._looks += 1
        if not isinstance(schema, dict) or self._looks > _MOST:
            return True
        fields = cast("dict[str, Any]", schema)
        if "const" in fields or "enum" in fields:
            return True
        return (
            self._reference_ends(fields.get("$ref"))
            and all(self._ends(part) for part in _list(fields.get("allOf")))
            and self._any_ends(_list(fields.get("anyOf")))
            and self._any_ends(_list(fields.get("oneOf")))
            and self._some_type_ends(fields)
        )

    def _any_ends(self, choices: list[Any]) -> bool:
        return not choices or any(self._ends(choice) for choice in choices)

    def _some_type_ends(self, schema: dict[str, Any]) -> bool:
        types = schema.get("type")
        types = [types] if isinstance(types, str) else _list(types)
        if not types:
            return True  # a number would do
        ends = {"object": self._object_ends, "array": self._array_ends}
        return any(ends[t](schema) if t in ("object", "array") else True for t in types)

    def _object_ends(self, schema: dict[str, Any]) -> bool:
        properties = schema.get("properties")
        known = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
        others = schema.get("additionalProperties")
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        return all(self._ends(known.get(name, others)) for name in required)

    def _array_ends(self, schema: dict[str, Any]) -> bool:
        least = schema.get("minItems")
        if not isinstance(least, int | float) or least < 1:
            return True
        first = _list(schema.get("prefixItems"))
        required = first[: int(least)]
        if least > len(first):
            required.append(schema.get("items"))
        return all(self._ends(item) for item in required)

    def _reference_ends(self, reference: Any) -> bool:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True  # llguidance has its own word on these
        if reference not in self._found:
            try:
                self._found[reference] = _resolve(self._root, reference[1:])
            except (KeyError, ValueError, IndexError, TypeError):
                return True
        return reference in self._finite


def _resolve(root: Any, pointer: str) -> Any:
    """What a JSON pointer in a URI fragment points to."""
    target: Any = root
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        array = _list(target)
        target = array[int(name)] if array else target[name]
    return target


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
