"""AWQ: codes of four bits in groups. Source: AutoAWQ, `WQLinear_GEMM` and `WQLinear_GEMV`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .matrix_format import CodeSizes, IntegerFormat, Parts, need, need_matrix, need_shape

if TYPE_CHECKING:
    import torch

    from ingle.kernels.formats.weight import Weight

_BITS, _IN_A_WORD = 4, 8
# Where in a word of the GEMM layout each of eight outputs is.
_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


class AWQ(IntegerFormat):
    """Codes packed along the outputs (GEMM), or along the inputs (GEMV)."""

    title = "AWQ"
    endings: Mapping[str, str] = {
        ".qweight": "codes",
        ".qzeros": "zeros",
        ".scales": "scales",
    }

    def __init__(self, group_size: int, *, gemv: bool = False) -> None:
        """`group_size` -1 is a whole row."""
        self._group_size = group_size
        self._gemv = gemv

    def holds(self, parts: Parts) -> bool:
        """See `MatrixFormat`."""
        return parts["codes"].dtype == "I32"

    def sizes(self, parts: Parts) -> CodeSizes:
        """See `IntegerFormat`."""
        need(parts, "scales", "zeros")
        first, words = need_matrix("codes", parts["codes"])
        rows, columns = first, words * _IN_A_WORD
        if not self._gemv:
            rows, columns = columns, rows
        size = columns if self._group_size < 0 else self._group_size
        groups, rest = divmod(columns, size)
        if rest:
            raise ValueError(f"for {columns} inputs, which are not groups of {size}")
        if self._gemv:  # padded to whole words, and more
            width = need_matrix("zero points", parts["zeros"])[1]
            need_shape("zero points", parts["zeros"], rows, width)
            need_shape("scales", parts["scales"], rows, width * _IN_A_WORD)
            if width * _IN_A_WORD < groups:
                raise ValueError(f"with {width * _IN_A_WORD} scales a row for {groups} groups")
        else:
            need_shape("scales", parts["scales"], groups, rows)
            need_shape("zero points", parts["zeros"], groups, rows // _IN_A_WORD)
        return CodeSizes(_BITS, rows, columns, groups)

    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """See `MatrixFormat`."""
        from ingle.kernels.formats.integer_codes import from_codes, unpack_bits

        _, rows, columns, groups = self.sizes(parts)
        codes, zeros, scales = (tensors[role] for role in ("codes", "zeros", "scales"))
        if self._gemv:
            zeros = unpack_bits(zeros, _BITS, groups)
            codes = unpack_bits(codes, _BITS, columns)
            return from_codes(codes, scales[:, :groups], zeros, _BITS)
        codes, zeros = (
            unpack_bits(each, _BITS, rows).unflatten(1, (-1, _IN_A_WORD))[..., _PLACES].flatten(1).T
            for each in (codes, zeros)
        )
        return from_codes(codes, scales.T, zeros, _BITS)
