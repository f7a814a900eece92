"""Read a JSON object from an untrusted file, within bounds."""

from __future__ import annotations

import stat
from pathlib import Path

from .errors import InvalidModel
from .safetensors.safetensors_header import parse_json_object

_LARGEST = 16 << 20


def read_json_object(path: Path, *, largest: int = _LARGEST) -> dict[str, object] | None:
    """The object in a file of at most `largest` bytes; None if there is no such file.

    Raises `InvalidModel` for anything else.
    """
    try:
        raw = read_bounded(path, largest)
    except FileNotFoundError:
        return None
    return parse_json_object(raw, path, "text")


def read_bounded(path: Path, largest: int) -> bytes:
    """The content of a regular file; raises `FileNotFoundError`, and `InvalidModel` otherwise."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO would block
            raise _invalid(path, "is not a regular file")
        with path.open("rb") as file:
            raw = file.read(largest + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise _invalid(path, f"cannot be read: {reason}") from error
    if len(raw) > largest:
        raise _invalid(path, f"is larger than {largest >> 20} MiB")
    return raw


def _invalid(path: Path, reason: str) -> InvalidModel:
    return InvalidModel(f"{path} {reason}.", hint="Download the model again.")
