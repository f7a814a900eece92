"""Floats of eight and four bits: FP8, NVFP4 and MXFP4.

All but FP8 with inputs in FP8, and MXFP4, are dequantised when they are loaded.

Sources: compressed-tensors, transformers' fine-grained FP8, ModelOpt, the OCP microscaling formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Literal

from .matrix_format import MatrixFormat, Parts, need, need_matrix, need_shape

if TYPE_CHECKING:
    import torch

    from ingle.kernels.formats.weight import QuantizedTensor, Weight

InputScales = Literal["static", "dynamic"]
"""Whether a product rounds its inputs with stored scales, or with those of their magnitudes."""
_FP8 = ("F8_E4M3", "F8_E5M2")
# What products of FP8 matrices need of their sizes.
_MULTIPLE, _MULTIPLE_OF_BLOCKS = 16, 512
_NVFP4_GROUP, _MXFP4_GROUP = 16, 32
_MXFP4_BYTES = 17


class FP8(MatrixFormat):
    """A scale for the matrix, for each row, for a row's groups, or for blocks."""

    title = "FP8"
    endings: Mapping[str, str] = {
        ".weight": "codes",
        ".weight_scale": "scales",
        ".weight_scale_inv": "scales",
        ".input_scale": "input_scale",
    }

    def __init__(
        self, block: tuple[int, int] = (128, 128), inputs: InputScales | None = None
    ) -> None:
        """`block` is the outputs and inputs of blocks, where scales are for blocks.

        `inputs` is how products round their inputs to FP8; None if they do not.
        """
        self._block = block
        self._inputs = inputs

    def holds(self, parts: Parts) -> bool:
        """See `MatrixFormat`."""
        return parts["codes"].dtype in _FP8

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """See `MatrixFormat`."""
        need(parts, "scales")
        rows, columns = need_matrix("codes", parts["codes"])
        self._spread(parts["scales"].shape, rows, columns)
        return rows, columns

    def fp8_bytes(self, parts: Parts) -> int:
        """See `MatrixFormat`."""
        rows, columns = self.shape(parts)
        _, across = self._spread(parts["scales"].shape, rows, columns)
        if across < columns or not self._rounds_inputs(parts):
            return self.held_bytes(parts)  # blocks: only some GPUs multiply them
        return rows * columns + 4 * prod(parts["scales"].shape)

    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """See `MatrixFormat`."""
        rows, columns = self.shape(parts)
        scales = tensors["scales"].float()
        if self._rounds_inputs(parts):
            from ingle.kernels.formats.weight import FP8Tensor

            kept = scales.reshape(()) if scales.numel() == 1 else scales.view(len(scales), -1)
            found = tensors.get("input_scale")
            fixed = None if found is None or self._inputs == "dynamic" else found
            return FP8Tensor(
                tensors["codes"], kept, None if fixed is None else fixed.float().reshape(())
            )
        down, across = self._spread(scales.shape, rows, columns)
        scales = scales.reshape(-(-rows // down), -(-columns // across))
        scales = scales.repeat_interleave(down, 0)[:rows].repeat_interleave(across, 1)
        return tensors["codes"].float().mul_(scales[:, :columns])

    def _rounds_inputs(self, parts: Parts) -> bool:
        """Whether the matrix stays in FP8, for products with inputs in FP8."""
        rows, columns = self.shape(parts)
        down, across = self._spread(parts["scales"].shape, rows, columns)
        if self._inputs is None or parts["codes"].dtype != _FP8[0] or rows % _MULTIPLE:
            return False
        if self._inputs == "static":
            found = parts.get("input_scale")
            if found is None or prod(found.shape) != 1 or across != columns:
                return False
        if across == columns:
            return columns % _MULTIPLE == 0
        return (down, across) == (128, 128) and columns % _MULTIPLE_OF_BLOCKS == 0

    def _spread(self, shape: tuple[int, ...], rows: int, columns: int) -> tuple[int, int]:
        """The outputs and inputs that share a scale."""
        if prod(shape) == 1:
            return rows, columns
        if shape in ((rows,), (rows, 1)):
            return 1, columns
        if len(shape) == 2:
            down, across = self._block
            if shape == (-(-rows // down), -(-columns // across)):
                return down, across
            if shape[0] == rows and shape[1] and columns % shape[1] == 0:
                return 1, columns // shape[1]
        raise ValueError(f"with scales of the shape {shape} for {rows} by {columns} weights")


class FP4(MatrixFormat):
    """NVFP4, with scales in FP8 and one of the matrix, or MXFP4, whose scales are exponents."""

    def __init__(self, *, mx: bool, modelopt: bool = False) -> None:
        """ModelOpt names tensors otherwise, and multiplies by the matrix's scale."""
        self.title = "MXFP4" if mx else "NVFP4"
        self.endings = {
            ".weight" if modelopt else ".weight_packed": "codes",
            ".weight_scale": "scales",
            ".weight_scale_2" if modelopt else ".weight_global_scale": "whole",
        }
        self._mx = mx
        self._multiplies = modelopt
        self._group = _MXFP4_GROUP if mx else _NVFP4_GROUP

    def holds(self, parts: Parts) -> bool:
        """See `MatrixFormat`."""
        scales = parts["scales"].dtype if "scales" in parts else ""
        kinds = ("U8", "F8_E8M0") if self._mx else ("F8_E4M3",)
        return parts["codes"].dtype == "U8" and scales in kinds

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """See `MatrixFormat`."""
        need(parts, "scales", *(() if self._mx else ("whole",)))
        rows, pairs = need_matrix("codes", parts["codes"])
        if 2 * pairs % self._group:
            raise ValueError(f"for {2 * pairs} inputs, which are not groups of {self._group}")
        need_shape("scales", parts["scales"], rows, 2 * pairs // self._group)
        if not self._mx and prod(parts["whole"].shape) != 1:
            raise ValueError(f"with a scale of the shape {parts['whole'].shape} for the matrix")
        return rows, 2 * pairs

    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """See `MatrixFormat`."""
        import torch

        from ingle.kernels.formats.codecs import DOUBLED_E2M1
        from ingle.kernels.formats.dequantize import dequantize
        from ingle.kernels.formats.integer_codes import unpack_bits

        rows, columns = self.shape(parts)
        codes = unpack_bits(tensors["codes"], 4, columns).view(rows, -1, self._group)
        if self._mx:
            return dequantize(_mxfp4(codes, tensors["scales"].view(torch.uint8)))
        values = torch.tensor(DOUBLED_E2M1, dtype=torch.float32)[codes.int()].div_(2)
        scales, whole = tensors["scales"].float(), tensors["whole"].float().reshape(())
        scales = scales * whole if self._multiplies else scales / whole
        return values.mul_(scales[..., None]).view(rows, columns)


class MXFP4Experts(MatrixFormat):
    """gpt-oss: the matrices of all experts, in blocks of 32 that stay packed."""

    title = "MXFP4"
    endings: Mapping[str, str] = {"_blocks": "codes", "_scales": "scales"}
    result = ""

    def holds(self, parts: Parts) -> bool:
        """See `MatrixFormat`."""
        return parts["codes"].dtype == "U8"

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Experts times outputs, and inputs."""
        need(parts, "scales")
        shape = parts["codes"].shape
        if len(shape) != 4 or shape[3] != _MXFP4_GROUP // 2:
            raise ValueError(f"with blocks of the shape {shape}")
        need_shape("scales", parts["scales"], *shape[:3])
        return shape[0] * shape[1], shape[2] * _MXFP4_GROUP

    def held_bytes(self, parts: Parts) -> int:
        """See `MatrixFormat`."""
        return prod(self.shape(parts)) // _MXFP4_GROUP * _MXFP4_BYTES

    def read(self, parts: Parts, tensors: Mapping[str, torch.Tensor]) -> Weight:
        """See `MatrixFormat`."""
        from ingle.kernels.formats.integer_codes import unpack_bits

        rows, columns = self.shape(parts)
        codes = unpack_bits(tensors["codes"].reshape(rows, -1), 4, columns)
        return _mxfp4(codes.view(rows, -1, _MXFP4_GROUP), tensors["scales"].view(rows, -1))


def _mxfp4(codes: torch.Tensor, scales: torch.Tensor) -> QuantizedTensor:
    """Codes (rows, blocks, 32) with exponents (rows, blocks) uint8 as GGUF files hold them."""
    import torch

    from ingle.kernels.formats.weight import QuantizedTensor

    packed = codes[..., :16] | codes[..., 16:] << 4
    data = torch.cat((scales[..., None], packed), 2).flatten(1)
    return QuantizedTensor("MXFP4", data, codes.shape[1] * _MXFP4_GROUP)
