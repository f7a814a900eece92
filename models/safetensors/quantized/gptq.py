"""GPTQ: codes packed along the inputs, groups maybe in the order of the activations' size.

Source: AutoGPTQ and GPTQModel. Version 1 stores zero points less one, version 2 as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .matrix_format import CodeSizes, IntegerFormat, Parts, need, need_matrix, need_shape

if TYPE_CHECKING:
    import torch

    from ingle.kernels.formats.weight import Weight

_BITS = (2, 3, 4, 8)


class GPTQ(IntegerFormat):
    """Words of codes (inputs * bits / 32, outputs), zero points and scales (groups, outputs)."""

    endings: Mapping[str, str] = {
        ".qweight": "codes",
        ".qzeros": "zeros",
        ".scales": "scales",
        ".g_idx": "group_of",
    }

    def __init__(
        self, bits: int, group_size: int, *, symmetric: bool, less_one: bool, mixed: bool
    ) -> None:
        """`group_size` -1 is a whole row; `mixed` lets layers have other bits and groups."""
        self.title = f"GPTQ-Int{bits}"
        self._bits = bits
        self._group_size = group_size
        self._symmetric = symmetric
        self._less_one = less_one
        self._mixed = mixed

    def holds(self, parts: Parts) -> bool:
        """See `MatrixFormat`."""
        return parts["codes"].dtype == "I32"

    def is_symmetric(self, parts: Parts) -> bool:
        """See `IntegerFormat`."""
        del parts
        return self._symmetric

    def sizes(self, parts: Parts) -> CodeSizes:
        """See `IntegerFormat`."""
        need(parts, "scales", "zeros")
        words, rows = need_matrix("codes", parts["codes"])
        groups, outputs = need_matrix("scales", parts["scales"])
        bits, rest = divmod(need_matrix("zero points", parts["zeros"])[1] * 32, outputs)
        if outputs != rows or parts["zeros"].shape[0] != groups or rest or bits not in _BITS:
            raise ValueError(
                f"in tensors that do not fit: codes {parts['codes'].shape}, zero points "
                f"{parts['zeros'].shape}, scales {parts['scales'].shape}"
            )
        columns = words * 32 // bits
        size = columns if self._group_size < 0 else self._group_size
        if not self._mixed and bits != self._bits:
            raise ValueError(f"with {bits} bits, where the settings say {self._bits}")
        if not self._mixed and -(-columns // size) != groups:
            raise ValueError(f"in {groups} groups, where the settings say {size} weights each")
        if "group_of" in parts:
            need_shape("groups of inputs", parts["group_of"], columns)
        elif columns % groups:
            raise ValueError(f"in {groups} groups of {columns} inputs")
        return CodeSizes(bits, rows, columns, groups)

    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """See `MatrixFormat`."""
        from ingle.kernels.formats.integer_codes import from_codes, unpack_bits

        bits, rows, columns, groups = self.sizes(parts)
        codes = unpack_bits(tensors["codes"].T, bits, columns)
        zeros = unpack_bits(tensors["zeros"], bits, rows).T
        if self._less_one:
            zeros = zeros + 1 & (1 << bits) - 1
        group_of = tensors.get("group_of")
        if group_of is not None:
            group_of = group_of.long()
            if bool((group_of < 0).any() or (group_of >= groups).any()):
                raise ValueError(f"with inputs in other groups than its {groups}")
        return from_codes(codes, tensors["scales"].T, zeros, bits, group_of)
