"""The bytes of a file as a tensor, without reading them."""

from __future__ import annotations

import mmap
import stat
import warnings
from pathlib import Path

import torch

from ..errors import InvalidModel, ModelNotFound


def map_file(path: Path) -> torch.Tensor:
    """The whole file (bytes,) uint8, memory-mapped: pages are read when they are touched.

    The tensor must not be written to. Raises `ModelNotFound` or `InvalidModel`.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a FIFO would wait for ever
            raise InvalidModel(f"{path} is not a regular file.", hint="Name a model file.")
        with path.open("rb") as file:
            # Read-only rather than private and writable, which Linux counts as memory in use.
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelNotFound(f"There is no file {path}.") from None
    except ValueError as error:  # an empty file has no pages
        raise InvalidModel(f"{path} is empty.", hint="Download it again.") from error
    except OSError as error:
        raise ModelNotFound(f"{path} cannot be read: {error.strerror or error}.") from error
    with warnings.catch_warnings():
        # torch has no read-only tensors and warns of that.
        warnings.filterwarnings("ignore", "The given buffer is not writable")
        return torch.frombuffer(pages, dtype=torch.uint8)
