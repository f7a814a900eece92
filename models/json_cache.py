"""Caches in a JSON file, which several processes may share and any may lose."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .struct_preparation import prepared

T = TypeVar("T")


def read_json_cache(
    path: Path, kind: type[T], dec_hook: Callable[[type, Any], Any] | None = None
) -> T | None:
    """The cached value, or None if there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepared(kind), dec_hook=dec_hook)
    except (OSError, msgspec.MsgspecError):
        return None


def write_json_cache(path: Path, value: object, *, folder_mode: int = 0o777) -> None:
    """Replace the file in one step; a failure is ignored, since the value can be found again."""
    temporary = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=folder_mode, parents=True, exist_ok=True)
        temporary.write_bytes(msgspec.json.encode(value, enc_hook=str))
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
