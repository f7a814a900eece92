"""Integers of compressed-tensors: packed codes of up to eight bits, and int8 matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .matrix_format import CodeSizes, IntegerFormat, Parts, need, need_matrix, need_shape

if TYPE_CHECKING:
    import torch

    from ingle.kernels.formats.weight import Weight

_SIGN = 128


class IntegerScheme(NamedTuple):
    """The bits of a code, and the inputs that share a scale; None where a row or matrix does."""

    bits: int
    group_size: int | None


class PackedIntegers(IntegerFormat):
    """`pack-quantized`: words of codes (outputs, inputs * bits / 32), offset to be unsigned."""

    endings: Mapping[str, str] = {
        ".weight_packed": "codes",
        ".weight_scale": "scales",
        ".weight_zero_point": "zeros",
        ".weight_g_idx": "group_of",
        ".weight_shape": "shape",
    }

    def __init__(self, schemes: Sequence[IntegerScheme]) -> None:
        """The schemes of the settings; a matrix has the first one that fits its shapes."""
        self.title = f"W{schemes[0].bits}A16"
        self._schemes = schemes

    def holds(self, parts: Parts) -> bool:
        """See `MatrixFormat`."""
        return parts["codes"].dtype == "I32"

    def sizes(self, parts: Parts) -> CodeSizes:
        """See `IntegerFormat`."""
        need(parts, "scales")
        rows, words = need_matrix("codes", parts["codes"])
        groups = _groups(parts["scales"].shape, rows)
        for bits, size in self._schemes:
            columns = words * 32 // bits if size is None else groups * size
            if -(-columns * bits // 32) == words and (size is not None or groups == 1):
                if "group_of" in parts:
                    need_shape("groups of inputs", parts["group_of"], columns)
                return CodeSizes(bits, rows, columns, groups)
        raise ValueError(f"as {words} words and {groups} scales a row, as no settings ask for")

    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """See `MatrixFormat`."""
        import torch

        from ingle.kernels.formats.integer_codes import from_codes, unpack_bits

        bits, rows, columns, groups = self.sizes(parts)
        stated = tensors.get("shape")
        if stated is not None and not torch.equal(stated.long(), torch.tensor([rows, columns])):
            raise ValueError(f"with a stated shape that is not {rows} by {columns}")
        codes = unpack_bits(tensors["codes"], bits, columns)
        zeros = torch.full((rows, groups), 1 << bits - 1, dtype=torch.uint8)
        stored = tensors.get("zeros")
        if stored is not None and stored.dtype == torch.int32:
            need_shape("zero points", parts["zeros"], -(-rows * bits // 32), groups)
            zeros = unpack_bits(stored.T, bits, rows).T
        elif stored is not None:
            zeros = zeros.int() + stored.view(-1, groups).int()
        group_of = tensors.get("group_of")
        if group_of is not None:
            group_of = None if bool((group_of < 0).all()) else group_of.long()
        if group_of is not None and bool((group_of < 0).any() or (group_of >= groups).any()):
            raise ValueError(f"with inputs in other groups than its {groups}")
        scales = tensors["scales"].view(-1, groups).expand(rows, groups)
        return from_codes(codes, scales, zeros, bits, group_of)


class Int8(IntegerFormat):
    """`int-quantized`: signed bytes with a scale for each row, or for the matrix."""

    title = "W8A8"
    endings: Mapping[str, str] = {
        ".weight": "codes",
        ".weight_scale": "scales",
        ".weight_zero_point": "zeros",
    }

    def holds(self, parts: Parts) -> bool:
        """See `MatrixFormat`."""
        return parts["codes"].dtype == "I8"

    def sizes(self, parts: Parts) -> CodeSizes:
        """See `IntegerFormat`."""
        need(parts, "scales")
        rows, columns = need_matrix("codes", parts["codes"])
        groups = _groups(parts["scales"].shape, rows)
        if columns % groups:
            raise ValueError(f"in {groups} groups of {columns} inputs")
        return CodeSizes(8, rows, columns, groups)

    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """See `MatrixFormat`."""
        import torch

        from ingle.kernels.formats.integer_codes import from_codes

        _, rows, _, groups = self.sizes(parts)
        zeros = torch.full((rows, groups), _SIGN, dtype=torch.int32)
        if "zeros" in tensors:
            zeros = zeros + tensors["zeros"].view(-1, groups).int()
        scales = tensors["scales"].view(-1, groups).expand(rows, groups)
        return from_codes(tensors["codes"].view(torch.uint8) ^ _SIGN, scales, zeros, 8)


def _groups(shape: Sequence[int], rows: int) -> int:
    """The scales a row; raises `ValueError` for scales of another number of rows."""
    if shape in ((), (1,), (rows,), (1, 1)):
        return 1
    if len(shape) != 2 or shape[0] != rows or not shape[1]:
        raise ValueError(f"with scales of the shape {tuple(shape)} for {rows} rows")
    return shape[1]
