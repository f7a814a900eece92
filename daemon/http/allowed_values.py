"""The values that a field of a body may have, where it has a list of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import inspect

_PART = re.compile(r"[^.\[\]]+|\[[^\]]*\]")


def allowed_values(kind: type, where: str) -> list[str]:
    """The texts allowed at `where`, a place as msgspec names it (`$.tools[0].type`); maybe none."""
    types: list[inspect.Type] = [inspect.type_info(kind)]
    for part in _PART.findall(where.removeprefix("$")):
        types = [inner for each in _alternatives(types) for inner in _members(each, part)]
    found: list[str] = []
    for each in _alternatives(types):
        if isinstance(each, inspect.LiteralType):
            found += [value for value in each.values if isinstance(value, str)]
        elif isinstance(each, inspect.EnumType):
            found += [str(value.value) for value in each.cls]
    return found


def _alternatives(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    for each in types:
        match each:
            case inspect.UnionType():
                yield from _alternatives(each.types)
            case inspect.Metadata():
                yield from _alternatives([each.type])
            case _:
                yield each


def _members(kind: inspect.Type, part: str) -> list[inspect.Type]:
    match kind:
        case inspect.StructType():
            return [field.type for field in kind.fields if field.encode_name == part]
        case inspect.DictType() if part == "[...]":
            return [kind.value_type]
        case inspect.ListType() if part.startswith("["):
            return [kind.item_type]
        case _:
            return []
