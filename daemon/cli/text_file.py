"""Reads a text file that the user named on the command line."""

from __future__ import annotations

from pathlib import Path

from .command_errors import UsageError

_LARGEST = 1 << 24


def read_text_file(name: str, what: str, *, if_too_long: str) -> str:
    """Return the file's text, in UTF-8 and of at most 16 MiB; `what` begins the error message.

    Raises `UsageError`, whose hint is `if_too_long` for a longer one.
    """
    try:
        with Path(name).open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{what} {name} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{name} cannot be the name of a file.") from error
    if len(raw) > _LARGEST:
        raise UsageError(f"{what} {name} is longer than {_LARGEST >> 20} MiB.", if_too_long)
    try:
        return raw.decode("utf-8-sig")
    except ValueError as error:
        raise UsageError(f"{name} is not UTF-8 text.", "Convert it first.") from error
