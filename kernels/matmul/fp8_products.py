"""Products of weights and inputs in FP8: csrc/quantize_fp8.cuh, then torch's scaled products."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int
from typing import Literal

import torch

from ..elementwise.activations import Activations, FP8Inputs
from ..formats.fp8 import dequantize_fp8, quantize_fp8_reference
from ..formats.weight import FP8_BLOCK, FP8Tensor
from ..formats.weight_format import OLDEST_FP8_GPU
from ..launch.kernel_arguments import ELEMENT_TYPES, pointer
from ..launch.kernel_library import KernelLibrary

FP8Product = Literal["tensor", "row", "unscaled", "block"]
"""The scales that are given to torch: one, those of rows, none, or those of blocks."""
# Several times what sums of products of 16-bit outputs are off by; a wrong scale is off by more.
_TOLERANCE = 2e-2
_SIZES = (256, 1024)


def has_fp8(architecture: str) -> bool:
    """Whether GPUs such as `sm_90` may multiply FP8; the `host` emulates it."""
    number = architecture.removeprefix("sm_").rstrip("af")
    return not number.isdecimal() or divmod(int(number), 10) >= OLDEST_FP8_GPU


class FP8Products:
    """Rounds inputs with the kernels of `library`, and has torch multiply them.

    Results have 16 bits, `dtype`. A product that fails on this device, or is wrong, is not used.
    """

    def __init__(self, library: KernelLibrary, dtype: torch.dtype, device: torch.device) -> None:
        """Tries the products; waits for the device."""
        self._library = library
        self._dtype = dtype
        self._one = torch.ones((), device=device)
        names: Sequence[FP8Product] = ("tensor", "row", "unscaled", "block")
        self.products = frozenset(name for name in names if self._is_right(name))
        """Those that this device has."""
        self._input_scales: dict[float, torch.Tensor] = {}

    def product_for(self, weight: FP8Tensor) -> FP8Product | None:
        """The product that such weights need; None if the device has none."""
        if weight.scaling == "block":
            choices: Sequence[FP8Product] = ("block",)
        elif weight.scaling == "tensor" and weight.input_scale is not None:
            choices = ("tensor",)
        else:
            # Rows have results in bfloat16 only.
            choices = ("row", "unscaled") if self._dtype == torch.bfloat16 else ("unscaled",)
        return next((each for each in choices if each in self.products), None)

    def prepare(self, weight: FP8Tensor) -> FP8Tensor:
        """The weights with one tensor for equal scales of inputs, and the scales of the product."""
        fixed, scales = weight.input_scale, weight.scales
        if fixed is not None:
            fixed = self._input_scales.setdefault(float(fixed), fixed)
        if self.product_for(weight) == "row" and scales.ndim == 0:
            scales = scales.repeat(len(weight.codes), 1)
        return FP8Tensor(weight.codes.contiguous(), scales, fixed)

    def inputs(self, x: Activations, weight: FP8Tensor) -> FP8Inputs:
        """The inputs as these weights need them, rounded once for all that need the same."""
        fixed = weight.input_scale
        key = weight.scaling == "block", 0 if fixed is None else fixed.data_ptr()
        if key not in x.fp8:
            assert x.dense is not None, "these activations have no dense values"
            x.fp8[key] = self.quantize(x.dense, weight)
        return x.fp8[key]

    def quantize(self, x: torch.Tensor, weight: FP8Tensor) -> FP8Inputs:
        """The contiguous rows `x` (tokens, inputs) as these weights need them."""
        tokens, inputs = x.shape
        codes = torch.empty(tokens, inputs, dtype=torch.float8_e4m3fn, device=x.device)
        grid, fixed = (tokens, 1, 1), weight.input_scale
        if fixed is not None:
            scales, name = fixed, "quantize_fp8_fixed"
            grid = tokens, -(-inputs // 1024), 1
        elif weight.scaling == "block":
            groups = inputs // FP8_BLOCK
            scales, name = torch.empty(groups, tokens, device=x.device).T, "quantize_fp8_groups"
            grid = tokens, -(-groups // 8), 1
        else:
            scales, name = torch.empty(tokens, 1, device=x.device), "quantize_fp8_rows"
        numbers = c_int(inputs), c_int(ELEMENT_TYPES[x.dtype])
        arguments = *map(pointer, (x, codes, scales)), *numbers
        self._library.launch("quantize_fp8.cuh", name, grid, (256, 1, 1), arguments)
        return FP8Inputs(codes, scales)

    def multiply(
        self, x: FP8Inputs, weight: FP8Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """`x` by the transpose of `weight`, plus `bias` (rows,): (tokens, rows) in 16 bits."""
        product = self.product_for(weight)
        assert product is not None, "this device multiplies no such weights"
        return self._multiply(product, x, weight, bias)

    def _multiply(
        self, product: FP8Product, x: FP8Inputs, weight: FP8Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        if product == "unscaled":
            return self._multiply_unscaled(x, weight, bias)
        of_inputs = x.scales
        if product == "row" and of_inputs.ndim == 0:
            of_inputs = of_inputs.repeat(len(x.codes), 1)
        return torch._scaled_mm(  # pyright: ignore[reportPrivateImportUsage, reportPrivateUsage]
            x.codes,
            weight.codes.T,
            scale_a=of_inputs,
            scale_b=weight.scales.t(),
            bias=None if bias is None else bias.to(self._dtype),
            out_dtype=self._dtype,
        )

    def _multiply_unscaled(
        self, x: FP8Inputs, weight: FP8Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        one = self._one
        sums = torch._scaled_mm(  # pyright: ignore[reportPrivateImportUsage, reportPrivateUsage]
            x.codes, weight.codes.T, scale_a=one, scale_b=one, out_dtype=torch.float32
        )
        sums.mul_(x.scales).mul_(weight.scales.t())
        return (sums if bias is None else sums.add_(bias)).to(self._dtype)

    def _is_right(self, product: FP8Product) -> bool:
        """Whether the device computes a small product, with other scales for each part of it."""
        device = self._one.device
        random = torch.Generator().manual_seed(1)
        rows, columns = _SIZES
        x = torch.randn(17, columns, generator=random)
        codes = torch.randn(rows, columns, generator=random).to(torch.float8_e4m3fn)
        shapes = {"tensor": (), "block": (rows // FP8_BLOCK, columns // FP8_BLOCK)}
        scales = torch.rand(shapes.get(product, (rows, 1)), generator=random) + 0.1
        weight = FP8Tensor(codes, scales)
        if product == "tensor":
            rounded = quantize_fp8_reference(x, torch.tensor(0.01))
            exact = rounded[0].double() * 0.01
        else:
            group = FP8_BLOCK if product == "block" else columns
            rounded = quantize_fp8_reference(x, group=group)
            exact = rounded[0].double() * rounded[1].double().repeat_interleave(group, 1)
        expected = exact @ dequantize_fp8(weight).double().T
        of_inputs = rounded[1].T.contiguous().T.to(device) if product == "block" else rounded[1]
        inputs = FP8Inputs(rounded[0].to(device), of_inputs.to(device))
        try:
            for tokens in (1, len(x)):
                some = FP8Inputs(inputs.codes[:tokens], _of_tokens(inputs.scales, tokens))
                found = self._multiply(product, some, weight.to(device), None).cpu().double()
                off = (found - expected[:tokens]).square().sum() / expected[:tokens].square().sum()
                if not float(off) ** 0.5 < _TOLERANCE:
                    return False
        except (RuntimeError, ValueError):  # how torch says that it has none
            return False
        return True


def _of_tokens(scales: torch.Tensor, tokens: int) -> torch.Tensor:
    """The scales of the first tokens, stored as for so many."""
    return scales if scales.ndim == 0 else scales[:tokens].T.contiguous().T
