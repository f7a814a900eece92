"""Paths in the data of a settings file, independent of its format."""

from __future__ import annotations

import copy
from typing import NamedTuple, cast

ABSENT = object()
"""Stands for a value that does not exist."""


class DocumentItem(NamedTuple):
    """The object in a list whose field `key` has this value."""

    key: str
    value: str

    def matches(self, data: object) -> bool:
        """Whether `data` is such an object."""
        return (
            isinstance(data, dict) and cast("dict[str, object]", data).get(self.key) == self.value
        )


Path = tuple[str | DocumentItem, ...]
"""Keys of objects, and items of lists, from the outside in."""


class CannotEdit(Exception):
    """The file cannot be edited; the message says why, in one sentence."""


def find(data: object, path: Path) -> object:
    """Return the value at the path, or `ABSENT`; raises `CannotEdit` if another value is in the
    way.

    >>> find({"a": [{"name": "x", "b": 1}]}, ("a", DocumentItem("name", "x"), "b"))
    1
    """
    for step, part in enumerate(path):
        if data is ABSENT or data is None:
            return ABSENT
        if isinstance(part, DocumentItem):
            data = _item(_checked(data, list, path[:step]), part)
        else:
            data = cast("dict[str, object]", _checked(data, dict, path[:step])).get(part, ABSENT)
    return data


def changed(data: object, path: Path, value: object) -> object:
    """Return a copy of the data with the value at the path."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(first, DocumentItem):
        items = list(cast("list[object]", data)) if isinstance(data, list) else []
        old = _item(items, first)
        new = changed(None if old is ABSENT else old, rest, value)
        if old is ABSENT:
            return [*items, new]
        return [new if item is old else item for item in items]
    members = dict(cast("dict[str, object]", data)) if isinstance(data, dict) else {}
    members[first] = changed(members.get(first), rest, value)
    return members


def without(data: object, path: Path) -> object:
    """Return a copy of the data without the value at the path."""
    if not path:
        raise ValueError("the path is empty")
    data, first, rest = copy.copy(data), path[0], path[1:]
    if isinstance(first, DocumentItem):
        items = cast("list[object]", data)
        old = _item(items, first)
        if not rest:
            return [item for item in items if item is not old]
        return [without(item, rest) if item is old else item for item in items]
    members = cast("dict[str, object]", data)
    if rest:
        members[first] = without(members[first], rest)
    else:
        del members[first]
    return members


def without_empty(data: object) -> object:
    """Return a copy of the data without empty objects, lists and nulls; None if nothing is left."""
    if isinstance(data, dict):
        members = {k: without_empty(v) for k, v in cast("dict[str, object]", data).items()}
        return {key: value for key, value in members.items() if value is not None} or None
    if isinstance(data, list):
        items = [without_empty(item) for item in cast("list[object]", data)]
        return [item for item in items if item is not None] or None
    return data


def _item(items: object, wanted: DocumentItem) -> object:
    found = (item for item in cast("list[object]", items) if wanted.matches(item))
    return next(found, ABSENT)


def _checked(data: object, kind: type, path: Path) -> object:
    if isinstance(data, kind):
        return data
    where = ".".join(part if isinstance(part, str) else part.value for part in path)
    expected = "an object" if kind is dict else "a list"
    what = f"'{where}' in it" if where else "It"
    raise CannotEdit(f"{what} is not {expected}.")
