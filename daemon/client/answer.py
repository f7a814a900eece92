"""Base class of the answers of the native API, and their types for daemons of other versions."""

from __future__ import annotations

from enum import Enum
from functools import cache
from threading import Lock
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

T = TypeVar("T")

_PREPARING = Lock()


class Answer(msgspec.Struct, frozen=True):
    """JSON that the daemon sends; it always contains every field.

    A default stands for a field that a daemon of another version does not send.
    """


def tolerant(kind: type[T]) -> type[T]:
    """Return `kind` with text in place of fixed choices, to which a newer daemon may have added."""
    return prepared(_tolerant(kind))


def prepared(kind: type[T]) -> type[T]:
    """Return the type, once the fields of its classes are known: several threads may decode it.

    The reason is in `ingle.models.struct_preparation`, which the client may not import.
    """
    _prepare(kind)
    return kind


@cache
def _prepare(kind: Any) -> None:
    with _PREPARING:
        msgspec.json.Decoder(kind)


@cache
def _tolerant(kind: Any) -> Any:
    if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        return str
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        changed = [
            (each.name, _tolerant(each.type), _default(each))
            for each in msgspec.structs.fields(kind)
            if _tolerant(each.type) != each.type
        ]
        if not changed:
            return cast("Any", kind)
        return msgspec.defstruct(kind.__name__, changed, bases=(kind,), frozen=True, kw_only=True)
    arguments = tuple(map(_tolerant, get_args(kind)))
    if arguments == get_args(kind):
        return cast("Any", kind)
    generic: Any = Union if isinstance(kind, UnionType) else get_origin(kind)
    return generic[arguments]


def _default(field: FieldInfo) -> Any:
    make: Any = msgspec.field
    return make(
        name=field.encode_name, default=field.default, default_factory=field.default_factory
    )
