"""Open a model's file without trusting what is there."""

from __future__ import annotations

import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import InvalidModel, ModelNotFound


@contextmanager
def open_model_file(path: Path) -> Generator[BinaryIO]:
    """A regular file, open for reading.

    Raises `ModelNotFound` if it cannot be opened or read, and `InvalidModel` for anything else.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO would wait for ever
            raise InvalidModel(f"{path} is not a regular file.", hint="Name a model file.")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise ModelNotFound(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise ModelNotFound(f"{path} cannot be read: {reason}.") from error
