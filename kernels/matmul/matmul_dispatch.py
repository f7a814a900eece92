"""Linear layers of every weight format, each computed by the kernel that suits it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..elementwise.activations import Activations
from ..elementwise.gate_quantize import GateQuantize
from ..elementwise.gated_activation import GateActivation
from ..elementwise.norm_quantize import ActivationForms
from ..formats.weight import Repacked, format_name
from ..launch.kernel_library import KernelLibrary
from .dense_gated import DenseGate, DenseGated, can_gate_dense
from .dense_gemv import DenseGemv, can_multiply_dense
from .dequantized_gemm import DequantizedGemm
from .gated_gemv import GatedGemv, GatedLayer, can_fuse
from .gemm_shape import GEMM_SOURCES
from .linear import linear_reference
from .linear_layer import LinearLayer
from .matmul_tuning import MatmulTuning
from .paired_gemv import PairedGemv, source_of
from .quantized_gemm import QuantizedGemm
from .quantized_gemv import QuantizedGemv


class MatmulDispatch:
    """Linear layers for any number of rows; `table` has the row counts at which kernels change."""

    def __init__(
        self,
        library: KernelLibrary,
        dtype: torch.dtype,
        device: torch.device,
        table: MatmulTuning,
    ) -> None:
        self.dtype = dtype
        self._device = device
        self._table = table
        self._gemv = QuantizedGemv(library)
        self._gemm = QuantizedGemm(library, device)
        self._pairs = PairedGemv(library)
        self._dense = DenseGemv(library)
        self._dense_gated = DenseGated(library)
        self._gated = GatedGemv(library, device)
        self._gate = GateQuantize(library)
        self._large = DequantizedGemm(library, dtype, device)

    def uses_int8_activations(self, kind: str, tokens: int) -> bool:
        """Whether weights of a format (`format_name`) multiply so many rows as int8 activations."""
        few = tokens <= self._table.most_for_gemv(kind)
        return few or (kind.lower() in GEMM_SOURCES and tokens <= self._table.gemm)

    def multiply(self, x: Activations, layer: LinearLayer, out: torch.Tensor) -> None:
        """Write the layer's outputs to `out` (tokens, outputs), maybe a slice of wider rows."""
        weight, bias = layer.weight, layer.bias
        if not isinstance(weight, Repacked):
            self._multiply_others(x, layer, out)
        elif not self.uses_int8_activations(format_name(weight), x.tokens):
            self._multiply_large(x, layer, weight, out)
        else:
            self._product(x, weight).multiply(weight, _tiles(x), out, bias=bias)

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
        weight, bias = layer.weight, layer.bias
        if isinstance(weight, Repacked) and self.uses_int8_activations(
            format_name(weight), x.tokens
        ):
            product = self._product(x, weight)
            product.multiply_add(weight, _tiles(x), residual, bias=bias, scale=scale)
        elif x.dense is not None and can_multiply_dense(weight, x.dense):
            self._dense.multiply_add(weight, x.dense, residual, bias=bias, scale=scale)
        else:
            out = residual.new_empty(x.tokens, layer.outputs, dtype=self.dtype)
            self.multiply(x, layer, out)
            residual.add_(out, alpha=scale)

    def gated(
        self,
        x: Activations,
        gate: LinearLayer,
        up: LinearLayer,
        activation: GateActivation,
        wanted: ActivationForms,
    ) -> Activations:
        """See `Operations.gated_linear`."""
        first, second = gate.weight, up.weight
        if (
            isinstance(first, Repacked)
            and isinstance(second, Repacked)
            and x.tokens <= self._table.most_for_gemv(format_name(first))
            and can_fuse(first, second)
        ):
            layer = GatedLayer(first, second, activation, gate.bias, up.bias)
            return self._gated.multiply(layer, _tiles(x), wanted)
        fused = self._gated_dense(x, gate, up, activation, wanted)
        if fused is not None:
            return fused
        width = gate.outputs
        both = torch.empty(x.tokens, 2 * width, dtype=self.dtype, device=self._device)
        self.multiply(x, gate, both[:, :width])
        self.multiply(x, up, both[:, width:])
        return self._gate(both[:, :width], both[:, width:], activation, wanted)

    def _gated_dense(
        self,
        x: Activations,
        gate: LinearLayer,
        up: LinearLayer,
        activation: GateActivation,
        wanted: ActivationForms,
    ) -> Activations | None:
        first, second, rows = gate.weight, up.weight, x.dense
        if wanted.tiles or wanted.dense is None or rows is None:
            return None
        if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
            return None
        if not can_gate_dense(first, second, rows):
            return None
        out = rows.new_empty(x.tokens, gate.outputs, dtype=wanted.dense)
        layer = DenseGate(first, second, activation, gate.bias, up.bias)
        return Activations(gate.outputs, self._dense_gated.multiply(layer, rows, out))

    def _multiply_both(
        self, x: Activations, one: LinearLayer, other: LinearLayer, out: torch.Tensor
    ) -> bool:
        """Multiply in one launch if there is a kernel; returns whether there is."""
        first, second = one.weight, other.weight
        if not (
            isinstance(first, Repacked)
            and isinstance(second, Repacked)
            and source_of(first, second) is not None
        ):
            return False
        kinds = format_name(first), format_name(second)
        if x.tokens > min(self._table.most_for_gemv(kind) for kind in kinds):
            return False
        self._pairs.multiply(first, second, _tiles(x), out, biases=(one.bias, other.bias))
        return True

    def _product(self, x: Activations, weight: Repacked) -> QuantizedGemv | QuantizedGemm:
        few = x.tokens <= self._table.most_for_gemv(format_name(weight))
        return self._gemv if few else self._gemm

    def _multiply_large(
        self, x: Activations, layer: LinearLayer, weight: Repacked, out: torch.Tensor
    ) -> None:
        rows = _dense(x)
        if out.dtype == rows.dtype:
            self._large(rows, weight, layer.bias, out)
        else:
            out.copy_(self._large(rows, weight, layer.bias))

    def _multiply_others(self, x: Activations, layer: LinearLayer, out: torch.Tensor) -> None:
        weight, rows = layer.weight, _dense(x)
        assert not isinstance(weight, Repacked)
        if can_multiply_dense(weight, rows):
            self._dense.multiply(weight, rows, out, bias=layer.bias)
            return
        out.copy_(linear_reference(rows, weight, layer.bias))


def _tiles(x: Activations) -> torch.Tensor:
    assert x.tiles is not None, "these activations have no int8 tiles"
    return x.tiles


def _dense(x: Activations) -> torch.Tensor:
    assert x.dense is not None, "these activations have no dense values"
    return x.dense
