"""Finds JSON schemas that only infinite values match, on which llguidance would not terminate.

A schema is finite if some finite value matches it. A reference is finite if its target is, so
finite schemas are found iteratively, beginning with those without references.
"""

from __future__ import annotations

import json
from typing import Any, cast

from ..tool_calls.argument_types import json_fields, reference_target

# Limit on schemas to examine.
_MOST = 100_000


def check_schema(text: str) -> None:
    """Raise `ValueError` with the reason if no JSON value can match the schema in `text`."""
    try:
        root = json.loads(text)
        if not isinstance(root, dict):
            raise ValueError("it must be an object")
        if "$ref" in text and not _FinitenessCheck(root).is_finite():
            raise ValueError("it requires itself, so only infinite values could match")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


class _FinitenessCheck:
    """Determines whether finite values match the schema `root`."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._found: dict[str, Any] = {}
        self._finite: set[str] = set()
        self._looks = 0

    def is_finite(self) -> bool:
        """Return whether it is finite; True if the limit is exceeded."""
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
        fields = json_fields(schema)
        if self._looks > _MOST or "const" in fields or "enum" in fields:
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
            return True  # a number would match
        ends = {"object": self._object_ends, "array": self._array_ends}
        return any(ends[t](schema) if t in ("object", "array") else True for t in types)

    def _object_ends(self, schema: dict[str, Any]) -> bool:
        known = json_fields(schema.get("properties"))
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
            return True  # llguidance reports these itself
        if reference not in self._found:
            self._found[reference] = reference_target(reference, self._root)
        return reference in self._finite


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
