"""A short list of numbers that a GGUF file keeps as a tensor instead of in its header."""

from __future__ import annotations

import math
import struct

from ..errors import InvalidModel
from .gguf_header import GGUFHeader


def read_floats(header: GGUFHeader, name: str, count: int) -> tuple[float, ...] | None:
    """The `count` positive numbers of the tensor, or None where there is no such tensor.

    Raises `InvalidModel` where it has another type or length, or numbers that are not positive.
    """
    tensor = next((tensor for tensor in header.tensors if tensor.name == name), None)
    if tensor is None:
        return None
    if tensor.type != "F32" or tensor.shape != (count,):
        raise InvalidModel(
            f"{header.path} has {tensor.shape} values of type {tensor.type} in {name!r} where "
            f"{count} of type F32 belong.",
            hint="Use another conversion of the model.",
        )
    with header.files[tensor.file].open("rb") as file:
        file.seek(tensor.offset)
        values = struct.unpack(f"<{count}f", file.read(4 * count))
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise InvalidModel(
            f"{header.path} has numbers in {name!r} that are not positive.",
            hint="Download it again: the file is damaged.",
        )
    return values
