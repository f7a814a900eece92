"""Fields of request bodies that are not served: those without effect, and those that are refused.

A body's type names its policy in the class variable `field_policy`. Without one nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from ingle.models.struct_preparation import prepared

from ..errors import UnsupportedField

UNKNOWN = "unknown"
"""Counts all fields that no list names; others are counted by their names."""

_MOST_NAMES = 32
_MOST_SUGGESTIONS = 4
_LONGEST_NAME = 40

T = TypeVar("T")
IsHarmless = Callable[[Any], bool]
HasEffect = Callable[[str], bool]


class PartPolicy(msgspec.Struct, frozen=True):
    """The members of an object within a body: those with an effect, and those without."""

    served: frozenset[str]
    ignored: frozenset[str]


class FieldPolicy(msgspec.Struct, frozen=True):
    """What is not served of one kind of body; null is always harmless.

    `ignored` fields have no effect, also if the body's type has them. A `refused` field would
    change the answer, unless its value is harmless. `parts` are objects whose members are looked
    at, `items` lists whose texts, or `type`s of objects, may have no effect.
    """

    ignored: frozenset[str] = frozenset()
    refused: Mapping[str, IsHarmless] = MappingProxyType({})
    parts: Mapping[str, PartPolicy] = MappingProxyType({})
    items: Mapping[str, HasEffect] = MappingProxyType({})


class IgnoredField(msgspec.Struct, frozen=True):
    """A field without effect, and the `label` under which it is counted.

    `nearest` is the most similar name if no list names the field.
    """

    name: str
    label: str
    nearest: str | None = None


def field_policy_of(kind: type) -> FieldPolicy | None:
    """The policy of a body's type; None if it has none."""
    return getattr(kind, "field_policy", None)


@cache
def decided_fields(kind: type) -> frozenset[str]:
    """All field names of a body's type that are served, ignored or refused."""
    policy = field_policy_of(kind) or FieldPolicy()
    served = {field.encode_name for field in msgspec.structs.fields(kind)}
    return frozenset(served | policy.ignored | policy.refused.keys())


@cache
def strict_kind(kind: type[T]) -> type[T]:
    """A body's type for a first look: with all fields of its policy, and no others.

    What it decodes has no unknown fields, and `is_served` says whether it needs a second look.
    """
    if field_policy_of(kind) is None:
        return kind
    base = cast("type[msgspec.Struct]", kind)
    names = sorted(decided_fields(kind) - {f.encode_name for f in msgspec.structs.fields(base)})
    attributes = {f"not_served_{number}": name for number, name in enumerate(names)}
    strict = msgspec.defstruct(
        kind.__name__,
        [(attribute, msgspec.Raw, msgspec.Raw()) for attribute in attributes],
        bases=(base,),
        rename=attributes,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[T]", strict)


def is_served(value: object, kind: type) -> bool:
    """Whether all fields of a body have an effect; `value` is one of its strict type."""
    policy = field_policy_of(kind)
    if policy is None:
        return True
    read, absent = _not_served(kind)
    values = read(value)
    return (
        (values == absent or not any(map(_is_given, values)))
        and all(_has_effects(getattr(value, n), has) for n, has in policy.items.items())
        and all(_is_known(getattr(value, n), part) for n, part in policy.parts.items())
    )


@cache
def _not_served(
    kind: type,
) -> tuple[Callable[[object], tuple[object, ...]], tuple[object, ...]]:
    """What reads the ignored and refused fields of the strict type, and their values if absent."""
    policy = field_policy_of(kind) or FieldPolicy()
    names = policy.ignored | policy.refused.keys()
    fields = [f for f in msgspec.structs.fields(strict_kind(kind)) if f.encode_name in names]
    absent = tuple(field.default for field in fields)
    if len(fields) < 2:  # of which `attrgetter` makes no tuple
        return lambda value: tuple(getattr(value, field.name) for field in fields), absent
    return attrgetter(*(field.name for field in fields)), absent


def _is_given(value: object) -> bool:
    if isinstance(value, msgspec.Raw):
        return len(memoryview(value)) > 0 and not _is_null(value)
    return value is not None


def _has_effects(items: object, has_effect: HasEffect) -> bool:
    if not isinstance(items, list):
        return True
    for item in cast("list[object]", items):
        kind = _kind(item) if isinstance(item, msgspec.Raw) else getattr(item, "type", item)
        if isinstance(kind, str) and not has_effect(kind):
            return False
    return True


def _is_known(part: object, policy: PartPolicy) -> bool:
    return not isinstance(part, dict) or part.keys() <= policy.served


def ignored_fields(body: bytes, kind: type) -> list[IgnoredField]:
    """The fields of a valid body that have no effect; raises `UnsupportedField`."""
    policy = field_policy_of(kind)
    if policy is None:
        return []
    given = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    _refuse(given, policy)
    known = decided_fields(kind)
    found = [
        (name, name if name in known else UNKNOWN, known)
        for name, value in given.items()
        if (name in policy.ignored or name not in known) and not _is_null(value)
    ]
    for name, part in policy.parts.items():
        if name in given and bytes(given[name]).startswith(b"{"):
            found += _ignored_members(name, bytes(given[name]), part)
    for name, has_effect in policy.items.items():
        if name in given and bytes(given[name]).startswith(b"["):
            found += _ignored_items(name, bytes(given[name]), has_effect)
    return list(_with_suggestions(found))


def _refuse(given: Mapping[str, msgspec.Raw], policy: FieldPolicy) -> None:
    for name in policy.refused.keys() & given.keys():
        if not _is_null(given[name]) and not _passes(given[name], policy.refused[name]):
            raise UnsupportedField(
                f"'{name}' is not supported.",
                hint="Leave it out: the answer would not be what it asks for.",
                param=name,
            )


def _passes(value: msgspec.Raw, is_harmless: IsHarmless) -> bool:
    try:
        return is_harmless(msgspec.json.decode(value))
    except (msgspec.ValidationError, RecursionError):  # a number out of range, or nested deeply
        return False


_Found = tuple[str, str, frozenset[str]]
"""The name of a field, its label, and the names that an unknown one may have been meant for."""


def _ignored_members(name: str, text: bytes, part: PartPolicy) -> Iterator[_Found]:
    known = frozenset(f"{name}.{member}" for member in part.served | part.ignored)
    for member, value in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items():
        if member not in part.served and not _is_null(value):
            path = f"{name}.{member}"
            yield path, path if member in part.ignored else UNKNOWN, known


def _ignored_items(name: str, text: bytes, has_effect: HasEffect) -> Iterator[_Found]:
    kinds = dict.fromkeys(map(_kind, msgspec.json.decode(text, type=list[msgspec.Raw])))
    for kind in kinds:
        if kind is not None and not has_effect(kind):
            yield f"{name}.{kind}", name, frozenset()


class _Typed(msgspec.Struct):
    type: str | None = None


def _kind(item: msgspec.Raw) -> str | None:
    """A text, or the `type` of an object; None for anything else."""
    try:
        found = msgspec.json.decode(item, type=prepared(_Typed | str))
    except msgspec.ValidationError:  # which the body's own type allows, or reports
        return None
    return found.type if isinstance(found, _Typed) else found


def _with_suggestions(found: list[_Found]) -> Iterator[IgnoredField]:
    suggestions = 0
    for name, label, known in found[:_MOST_NAMES]:
        nearest = None
        if label == UNKNOWN and suggestions < _MOST_SUGGESTIONS:
            suggestions += 1
            nearest = _nearest(name[:_LONGEST_NAME], known)
        yield IgnoredField(name, label, nearest)


def _nearest(name: str, known: frozenset[str]) -> str | None:
    from difflib import get_close_matches  # few requests have unknown fields

    return next(iter(get_close_matches(name, sorted(known), 1)), None)


def _is_null(value: msgspec.Raw) -> bool:
    return bytes(value).strip() == b"null"


def ignored_header(fields: list[IgnoredField]) -> str:
    """The value of the header `Ingle-Ignored`: names, and `;nearest=NAME` after unknown ones."""
    return ", ".join(
        _token(field.name) + (f";nearest={field.nearest}" if field.nearest else "")
        for field in fields
    )


def _token(name: str) -> str:
    cut = name[:_LONGEST_NAME]
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in cut) or "_"
