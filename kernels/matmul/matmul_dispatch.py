"""Linear layers of every weight format, each computed by the kernel that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from ..elementwise.activations import ActivationForms, Activations
from ..elementwise.gated_activation import GateActivation, launch_gated_activation
from ..elementwise.rms_norm import Norm
from ..formats.weight import FP8Tensor, RepackedTensor
from ..launch.kernel_library import KernelLibrary
from .dense_gemv import DenseGemv, can_gate_dense, can_multiply_dense, launch_dense_gated
from .dequantize_rows import DequantizedGemm
from .fp8_products import FP8Products, has_fp8
from .gated_gemv import GatedGemv, can_fuse
from .linear import GatedLayer, LinearLayer, linear_reference
from .matmul_tuning import MatmulTuning
from .normed_gemv import NormedGemv, can_norm
from .quantized_gemm import QuantizedGemm
from .quantized_gemv import QuantizedGemv, can_pair


class MatmulDispatch:
    """Linear layers for any number of rows; `table` has the row counts at which kernels change."""

    def __init__(
        self,
        library: KernelLibrary,
        dtype: torch.dtype,
        device: torch.device,
        table: MatmulTuning,
        *,
        fp8: bool = True,
        fuses_norms: bool = True,
    ) -> None:
        """Without `fp8` no product is in FP8; without `fuses_norms` none has the norm after it."""
        self._normed = NormedGemv(library, device) if fuses_norms else None
        self._may_use_fp8 = fp8 and has_fp8(library.architecture)
        self.dtype = dtype
        self._library = library
        self._device = device
        self._table = table
        self._gemv = QuantizedGemv(library)
        self.gemm = QuantizedGemm(library, device)
        self._dense = DenseGemv(library)
        self._gated = GatedGemv(library, device)
        self._large = DequantizedGemm(library, dtype, device)

    @cached_property
    def fp8(self) -> FP8Products | None:
        """The products of FP8, which are tried on the device when a model first needs them."""
        if not self._may_use_fp8:
            return None
        return FP8Products(self._library, self.dtype, self._device)

    def uses_int8_activations(self, kind: str, tokens: int) -> bool:
        """Whether repacked weights of a format multiply so many rows as int8 activations."""
        return tokens <= max(self._table.most_for_gemv(kind), self._table.gemm)

    def multiply(self, x: Activations, layer: LinearLayer, out: torch.Tensor) -> None:
        """Write the layer's outputs to `out` (tokens, outputs), maybe a slice of wider rows."""
        self._multiply(self._in_order(x, layer), layer, out)

    def _multiply(self, x: Activations, layer: LinearLayer, out: torch.Tensor) -> None:
        weight = layer.weight
        if self._multiply_in_place(x, layer, out):
            return
        product = self.fp8_product(x, layer)
        if product is not None:
            out.copy_(product)
            return
        rows = _dense(x)
        if not isinstance(weight, RepackedTensor):
            out.copy_(linear_reference(rows, weight, layer.bias))
        elif out.dtype == rows.dtype:
            self._large(rows, weight, layer.bias, out)
        else:
            out.copy_(self._large(rows, weight, layer.bias))

    def multiply_all(
        self, x: Activations, layers: Sequence[LinearLayer], out: torch.Tensor
    ) -> None:
        """Write the outputs of the layers to `out` (tokens, outputs of all), side by side."""
        if len(layers) == 2 and self._multiply_both(x, layers[0], layers[1], out):
            return
        first = 0
        for layer in layers:
            self.multiply(x, layer, out[:, first : first + layer.outputs])
            first += layer.outputs

    def multiply_add(
        self, residual: torch.Tensor, x: Activations, layer: LinearLayer, scale: float
    ) -> None:
        """Add `scale` times the layer's outputs to `residual` (tokens, outputs) float32."""
        x = self._in_order(x, layer)
        product = self.fp8_product(x, layer)
        if product is not None:
            residual.add_(product, alpha=scale)
        elif not self._multiply_in_place(x, layer, residual, add=scale):
            out = residual.new_empty(x.tokens, layer.outputs, dtype=self.dtype)
            self._multiply(x, layer, out)
            residual.add_(out, alpha=scale)

    def multiply_add_norm(
        self,
        residual: torch.Tensor,
        x: Activations,
        layer: LinearLayer,
        scale: float,
        norm: Norm,
        wanted: ActivationForms,
    ) -> Activations | None:
        """`multiply_add`, and the norm of the sums, in one launch; None if there is no kernel."""
        weight = layer.weight
        if self._normed is None or not can_norm(weight, x.tokens):
            return None
        assert isinstance(weight, RepackedTensor)
        if not self._suits_gemv(x, weight):
            return None
        return self._normed.multiply_add(residual, _tiles(x), layer, scale, norm, wanted)

    def fp8_product(self, x: Activations, layer: LinearLayer) -> torch.Tensor | None:
        """The layer's outputs (tokens, outputs) in 16 bits if its weights are in FP8, else None."""
        weight = layer.weight
        if not isinstance(weight, FP8Tensor):
            return None
        assert self.fp8 is not None, "weights in FP8 have to be dequantised"
        return self.fp8.multiply(self.fp8.inputs(x, weight), weight, layer.bias)

    def gated(
        self,
        x: Activations,
        gate: LinearLayer,
        up: LinearLayer,
        activation: GateActivation,
        wanted: ActivationForms,
    ) -> Activations:
        """See `Operations.gated_linear`."""
        first, second, rows, biases = gate.weight, up.weight, x.dense, (gate.bias, up.bias)
        if isinstance(first, RepackedTensor) and isinstance(second, RepackedTensor):
            if self._suits_gemv(x, first) and can_fuse(first, second):
                layer = GatedLayer(first, second, activation, *biases)
                return self._gated.multiply(layer, _tiles(x), wanted)
        elif (
            isinstance(first, torch.Tensor)
            and isinstance(second, torch.Tensor)
            and wanted.dense is not None
            and not wanted.tiles
            and rows is not None
            and can_gate_dense(first, second, rows)
        ):
            out = rows.new_empty(x.tokens, gate.outputs, dtype=wanted.dense)
            layer = GatedLayer(first, second, activation, *biases)
            launch_dense_gated(self._library, layer, rows, out)
            return Activations(gate.outputs, out)
        gates, ups = self.fp8_product(x, gate), self.fp8_product(x, up)
        if gates is not None and ups is not None:
            return launch_gated_activation(self._library, gates, ups, activation, wanted)
        width = gate.outputs
        both = torch.empty(x.tokens, 2 * width, dtype=self.dtype, device=self._device)
        self.multiply(x, gate, both[:, :width])
        self.multiply(x, up, both[:, width:])
        return launch_gated_activation(
            self._library, both[:, :width], both[:, width:], activation, wanted
        )

    def _in_order(self, x: Activations, layer: LinearLayer) -> Activations:
        """The inputs in the order of the layer's weights."""
        weight = layer.weight
        if not isinstance(weight, RepackedTensor) or weight.order is None:
            return x
        rows = _dense(x).index_select(1, weight.order)
        few = self.uses_int8_activations(weight.type, x.tokens)
        return Activations(x.size, rows, self._gemv.quantize(rows) if few else None)

    def _multiply_in_place(
        self, x: Activations, layer: LinearLayer, out: torch.Tensor, add: float | None = None
    ) -> bool:
        """Multiply by a kernel that stores to `out` or adds to it; False if there is none."""
        weight, bias = layer.weight, layer.bias
        if isinstance(weight, RepackedTensor):
            if not self.uses_int8_activations(weight.type, x.tokens):
                return False
            product = self._gemv if self._suits_gemv(x, weight) else self.gemm
            product.multiply(weight, _tiles(x), out, bias=bias, add=add)
            return True
        if x.dense is None or not can_multiply_dense(weight, x.dense):
            return False
        self._dense.multiply(weight, x.dense, out, bias=bias, add=add)
        return True

    def _multiply_both(
        self, x: Activations, one: LinearLayer, other: LinearLayer, out: torch.Tensor
    ) -> bool:
        """Multiply in one launch; False if there is no kernel for that."""
        first, second = one.weight, other.weight
        if not (isinstance(first, RepackedTensor) and isinstance(second, RepackedTensor)):
            return False
        few = self._suits_gemv(x, first) and self._suits_gemv(x, second)
        if not few or not can_pair(first, second):
            return False
        self._gemv.multiply_pair(first, second, _tiles(x), out, biases=(one.bias, other.bias))
        return True

    def _suits_gemv(self, x: Activations, weight: RepackedTensor) -> bool:
        return x.tokens <= self._table.most_for_gemv(weight.type)


def _tiles(x: Activations) -> torch.Tensor:
    assert x.tiles is not None, "these activations have no int8 tiles"
    return x.tiles


def _dense(x: Activations) -> torch.Tensor:
    assert x.dense is not None, "these activations have no dense values"
    return x.dense
