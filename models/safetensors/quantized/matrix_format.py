"""How a quantised matrix is spread over stored tensors, and what it becomes in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ingle.kernels.formats.weight_format import format_of_codes

from ..safetensors_header import StoredTensor

if TYPE_CHECKING:
    import torch

    from ingle.kernels.formats.weight import Weight

Parts = Mapping[str, StoredTensor]
"""The stored tensors of a matrix by their roles: `codes`, `scales`, ..."""

_HALF = 2
# Scales of these types fit into the words and blocks of the kernels' formats.
_SHORT_FLOATS = ("F16", "BF16")


class MatrixFormat(ABC):
    """One way to store a matrix in several tensors.

    Imports torch only to read values, so that the daemon can describe a checkpoint. Methods raise
    `ValueError` with a clause about tensors that contradict each other or the settings.
    """

    title: str
    """What users call it."""
    endings: Mapping[str, str]
    """The role of a tensor by what its name ends with."""
    result: str = ".weight"
    """What takes the place of the ending in the name of the matrix."""

    @abstractmethod
    def holds(self, parts: Parts) -> bool:
        """Whether these tensors, `codes` among them, are a matrix of this format."""

    @abstractmethod
    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Outputs and inputs."""

    def held_bytes(self, parts: Parts) -> int:
        """The bytes that the engine keeps of it: by default dequantised to 16 bits."""
        return prod(self.shape(parts)) * _HALF

    def fp8_bytes(self, parts: Parts) -> int:
        """The same on a GPU that multiplies FP8."""
        return self.held_bytes(parts)

    @abstractmethod
    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """The matrix, from the tensors of all roles."""


class CodeSizes(NamedTuple):
    """The sizes of a matrix of integer codes; `groups` are those of one row."""

    bits: int
    rows: int
    columns: int
    groups: int


class IntegerFormat(MatrixFormat):
    """Integer codes with a scale, and maybe a zero point, for each group of a row."""

    @abstractmethod
    def sizes(self, parts: Parts) -> CodeSizes:
        """The sizes, checked against all shapes."""

    def is_symmetric(self, parts: Parts) -> bool:
        """Whether every zero point is in the middle of the codes."""
        return "zeros" not in parts

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """See `MatrixFormat`."""
        found = self.sizes(parts)
        return found.rows, found.columns

    def held_bytes(self, parts: Parts) -> int:
        """See `MatrixFormat`; packed where a format of the engine can hold the codes."""
        found = self.sizes(parts)
        form = format_of_codes(found.bits, found.columns, found.groups)
        known = found.bits < 8 or self.is_symmetric(parts)
        if form is None or not known or parts["scales"].dtype not in _SHORT_FLOATS:
            return found.rows * found.columns * _HALF
        return found.rows * found.columns // form.block_elements * form.block_bytes


def need(parts: Parts, *roles: str) -> None:
    """Raise `ValueError` unless there are tensors of these roles."""
    missing = [role for role in roles if role not in parts]
    if missing:
        raise ValueError(f"without its {missing[0]}")


def need_shape(what: str, tensor: StoredTensor, *shape: int) -> None:
    """Raise `ValueError` unless the tensor has this shape."""
    if tensor.shape != shape:
        raise ValueError(f"with {what} of the shape {tensor.shape}, where {shape} belongs")


def need_matrix(what: str, tensor: StoredTensor) -> tuple[int, int]:
    """The two sizes of a tensor; raises `ValueError` if it has others."""
    if len(tensor.shape) != 2 or not all(tensor.shape):
        raise ValueError(f"with {what} of the shape {tensor.shape}, which are no matrix")
    return tensor.shape[0], tensor.shape[1]
