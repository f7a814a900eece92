"""`Operations` on CUDA kernels: a few launches a layer, which a CUDA graph can record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import torch

from .attention.attention_combine import launch_attention_combine
from .attention.attention_input import AttentionInput, AttentionMetadata
from .attention.rope_append import launch_rope_append
from .attention.triton_attention import TritonAttention
from .elementwise.activations import ActivationForms, Activations
from .elementwise.gated_activation import (
    GateActivation,
    launch_gated_activation,
    launch_sigmoid_gate,
)
from .elementwise.rms_norm import Norm, NormQuantize
from .elementwise.rope import launch_rotary_tables
from .errors import KernelError
from .formats.dequantize import dequantize
from .formats.repack import can_repack, repack
from .formats.weight import (
    FP8Tensor,
    PreparedWeight,
    QuantizedTensor,
    RepackedTensor,
    Weight,
    format_name,
)
from .kv_cache.kv_pages import KVPages, QuantizedKVPages
from .launch.kernel_library import KernelLibrary, TritonLibrary
from .matmul.dequantize_rows import DequantizeRows
from .matmul.expert_gemm import ExpertGemm, block_width, expert_gemm_failures
from .matmul.expert_gemv import MOST_PICKS, ExpertGemv, expert_failures, has_expert_kernel
from .matmul.expert_layers import ExpertLayers, weighted
from .matmul.expert_picks import ExpertPicks, expert_pick_failures
from .matmul.linear import LinearLayer, embedding_reference
from .matmul.matmul_dispatch import MatmulDispatch
from .matmul.matmul_tuning import MatmulTuning
from .matmul.quantized_gemv import QuantizedGemv
from .matmul.stacked_layers import join_layers, stack_layers
from .operations import Operations, dense
from .recurrent.recurrent_operations import RecurrentKernels
from .sampling_check import sampling_failures
from .self_check import CheckedLayer, SelfCheck, first_rows
from .token_sampling import MAX_VOCAB


class KernelOperations(Operations):
    """See `Operations`; dense activations are float16 or bfloat16, others int8.

    Weights with kernels are repacked; for the others torch computes. All kernels share their
    workspace, so only one stream may use this object.
    """

    reads_blocks = True

    def __init__(
        self,
        library: KernelLibrary,
        compiled: TritonLibrary,
        *,
        dtype: torch.dtype,
        device: torch.device,
        table: MatmulTuning | None = None,
        fp8: bool = True,
        fuses_norms: bool = True,
        fuses_combining: bool = True,
    ) -> None:
        """Without `fp8` weights in FP8 are dequantised, even if the device multiplies them.

        Without `fuses_norms` a norm is a launch of its own, without `fuses_combining` so is what
        combines the parts of attention.
        """
        super().__init__(dtype)
        self._library = library
        self._device = device
        table = table or MatmulTuning.usual(library.architecture)
        self._products = MatmulDispatch(
            library, dtype, device, table, fp8=fp8, fuses_norms=fuses_norms
        )
        self._norms = NormQuantize(library)
        self._rows = DequantizeRows(library)
        self._gemv = QuantizedGemv(library)
        self._experts = ExpertGemv(library)
        self._expert_gemm = ExpertGemm(self._products.gemm)
        self._picks = ExpertPicks(library)
        self.recurrent = self._recurrent = RecurrentKernels(library, self._wanted)
        self._attention = TritonAttention(compiled, device)
        self._fuses_combining = fuses_combining
        self._kinds: set[str] = set()
        self._needs_dense = False
        self._examples: dict[str, Weight] = {}
        """The first rows of one matrix of each format."""
        self._of_experts: dict[str, QuantizedTensor] = {}
        """The same of the matrices of experts."""

    def multiplies_fp8(self, weight: FP8Tensor) -> bool:
        """See `Operations`."""
        products = self._products.fp8
        return products is not None and products.product_for(weight) is not None

    def prepare(self, weight: Weight, *, of_tokens: bool = False) -> PreparedWeight:
        """See `Operations`."""
        name = format_name(weight)
        if name not in self._examples:
            self._examples[name] = first_rows(weight)
        if isinstance(weight, FP8Tensor) and self._products.fp8 is not None:
            self._needs_dense |= not of_tokens
            self.rounds_to_fp8 = True
            return self._products.fp8.prepare(weight)
        if can_repack(weight):
            self._kinds.add(name)
            packed = repack(weight)
            self._needs_dense |= packed.order is not None and not of_tokens
            return packed
        self._needs_dense |= not of_tokens
        return weight

    def prepare_experts(self, weight: Weight) -> PreparedWeight:
        """See `Operations`; formats without a kernel for experts stay as they are."""
        if isinstance(weight, QuantizedTensor) and has_expert_kernel(weight):
            prepared = self.prepare(weight)
            example = self._examples[weight.type]
            assert isinstance(example, QuantizedTensor)
            self._of_experts[weight.type] = example
            return prepared
        self._needs_dense = self.has_slow_experts = True
        return super().prepare_experts(weight)

    def prepare_each(self, weight: Weight) -> Weight:
        """See `Operations`; torch multiplies them, which are few."""
        return weight if isinstance(weight, torch.Tensor) else dequantize(weight, self.dtype)

    def check(
        self,
        layers: Sequence[CheckedLayer],
        vocab: int,
        on_checked: Callable[[], None] = lambda: None,
    ) -> None:
        """Compare the kernels with plain torch on this device, for the weight formats of a model.

        `layers` are one of each shape of heads. Also those that sample from a vocabulary, unless it
        is too large for them. Overwrites the pages, and calls `on_checked` after each. Raises
        `KernelError` if the results differ.
        """
        check = SelfCheck(self, self._device, on_checked)
        failures = check.failures(list(self._examples.values()), *layers)
        of_experts = self._of_experts.values()
        failures += expert_failures(self._experts, of_experts, self._device)
        failures += expert_gemm_failures(self._expert_gemm, of_experts, self._device)
        failures += expert_pick_failures(self._picks, self._device) if of_experts else ()
        failures += self._recurrent.failures(self._device)
        on_checked()
        if vocab <= MAX_VOCAB:
            failures += sampling_failures(self._library, self._device, vocab)
        if failures:
            more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
            raise KernelError(
                f"ingle's kernels compute something else than they should: {failures[0]}{more}.",
                hint="Let llama.cpp run the model, and report this with the name of your GPU.",
            )

    def stack(self, *layers: LinearLayer) -> tuple[LinearLayer, ...]:
        """See `Operations`."""
        return stack_layers(layers)

    def embed(self, token_ids: torch.Tensor, table: PreparedWeight, scale: float) -> torch.Tensor:
        """See `Operations`."""
        if isinstance(table, RepackedTensor | torch.Tensor):
            rows = self._rows.gather(table, token_ids, scale=scale)
            if isinstance(table, RepackedTensor) and table.order is not None:
                return torch.empty_like(rows).index_copy_(1, table.order, rows)
            return rows
        return embedding_reference(token_ids, table, torch.float32) * scale

    def activations(self, rows: torch.Tensor) -> Activations:
        """See `Operations`."""
        wanted = self._wanted(len(rows))
        dense = rows.to(self.dtype) if wanted.dense is not None else None
        return Activations(
            rows.shape[1], dense, self._gemv.quantize(rows.contiguous()) if wanted.tiles else None
        )

    def rms_norm(
        self, rows: torch.Tensor, weight: torch.Tensor, epsilon: float, *, dense: bool = False
    ) -> Activations:
        """See `Operations`."""
        wanted = ActivationForms(self.dtype) if dense else self._wanted(len(rows))
        return self._norms.rms_norm(rows, weight, epsilon, wanted)

    def rms_norm_add(
        self, residual: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor, epsilon: float
    ) -> None:
        """See `Operations`."""
        self._norms.rms_norm_add(residual, rows, weight, epsilon)

    def linear(
        self, x: Activations, *layers: LinearLayer, dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, ...]:
        """See `Operations`."""
        kind = dtype or self.dtype
        ends = [0, *accumulate(layer.outputs for layer in layers)]
        together = torch.empty(x.tokens, ends[-1], dtype=kind, device=self._device)
        self._products.multiply_all(x, join_layers(layers), together)
        found = tuple(together[:, first:end] for first, end in pairwise(ends))
        for out, layer in zip(found, layers, strict=True):
            if layer.adapters is not None and layer.adapters.apply:
                layer.adapters.add_to(out, dense(x))
        return found

    def linear_add(
        self, residual: torch.Tensor, x: Activations, layer: LinearLayer, scale: float = 1.0
    ) -> None:
        """See `Operations`."""
        self._products.multiply_add(residual, x, layer, scale)
        if layer.adapters is not None and layer.adapters.apply:
            layer.adapters.add_to(residual, dense(x), scale)

    def linear_add_norm(
        self, residual: torch.Tensor, x: Activations, layer: LinearLayer, scale: float, norm: Norm
    ) -> Activations:
        """See `Operations`."""
        found = None
        if layer.adapters is None or not layer.adapters.apply:
            wanted = self._wanted(x.tokens)
            found = self._products.multiply_add_norm(residual, x, layer, scale, norm, wanted)
        return super().linear_add_norm(residual, x, layer, scale, norm) if found is None else found

    def gated_linear(
        self, x: Activations, gate: LinearLayer, up: LinearLayer, activation: GateActivation
    ) -> Activations:
        """See `Operations`."""
        wanted = self._wanted(x.tokens)
        if any(each.adapters is not None and each.adapters.apply for each in (gate, up)):
            gates, ups = self.linear(x, gate, up)
            return launch_gated_activation(self._library, gates, ups, activation, wanted)
        return self._products.gated(x, gate, up, activation, wanted)

    def sigmoid_gate(self, gate: torch.Tensor, rows: torch.Tensor) -> Activations:
        """See `Operations`."""
        return launch_sigmoid_gate(self._library, gate, rows, self._wanted(len(rows)))

    def squared_relu(self, rows: torch.Tensor) -> Activations:
        """See `Operations`."""
        wanted = self._wanted(len(rows))
        return launch_gated_activation(self._library, rows, rows, "relu", wanted)

    def experts(
        self, x: Activations, layers: ExpertLayers, picked: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """See `Operations`.

        If a matrix has no kernels for experts, every expert computes all of many tokens.
        """
        each = layers.gate.weight, layers.up.weight, layers.down.weight
        repacked = [isinstance(weight, RepackedTensor) for weight in each]
        if not any(repacked):
            return super().experts(x, layers, picked, weights)
        if all(repacked) and x.tiles is not None:
            few = picked.numel() <= MOST_PICKS
            compute = self._few_experts if few else self._sorted_experts
            return compute(x.tiles, layers, picked, weights)
        out = torch.zeros(x.tokens, layers.down.outputs, dtype=torch.float32, device=self._device)
        wanted = self._wanted(x.tokens)
        for expert in range(layers.gate.count):
            gate, up, down = (each.of(expert) for each in (layers.gate, layers.up, layers.down))
            if layers.up is layers.gate:
                active = self.squared_relu(self.linear(x, up)[0])
            else:
                active = self._products.gated(x, gate, up, layers.activation, wanted)
            (rows,) = self.linear(active, down, dtype=torch.float32)
            out += weighted(rows, weights.where(picked == expert, 0.0).sum(1, keepdim=True))
        return out

    def _few_experts(
        self,
        tiles: torch.Tensor,
        layers: ExpertLayers,
        picked: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        gates = self._experts.multiply(layers.gate, tiles, picked)
        ups = gates
        if layers.up is not layers.gate:
            ups = self._experts.multiply(layers.up, tiles, picked)
        wanted = ActivationForms(tiles=True)
        active = launch_gated_activation(self._library, gates, ups, layers.activation, wanted).tiles
        assert active is not None
        rows = self._experts.multiply(layers.down, active, picked.view(-1, 1))
        return self._picks.sum(rows, weights)

    def _sorted_experts(
        self,
        tiles: torch.Tensor,
        layers: ExpertLayers,
        picked: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        count = layers.gate.count
        blocks = self._picks.sort(picked, count, block_width(picked.numel(), count))
        own = tiles.index_select(1, blocks.tokens)
        gates = self._expert_gemm.multiply(layers.gate, own, blocks)
        ups = gates
        if layers.up is not layers.gate:
            ups = self._expert_gemm.multiply(layers.up, own, blocks)
        wanted = ActivationForms(tiles=True)
        active = launch_gated_activation(self._library, gates, ups, layers.activation, wanted).tiles
        assert active is not None
        rows = self._expert_gemm.multiply(layers.down, active, blocks)
        return self._picks.sum(rows, weights, blocks.rows)

    def rotary_tables(
        self, positions: torch.Tensor, frequencies: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Operations`."""
        return launch_rotary_tables(self._library, positions, frequencies, scale)

    def attend(
        self,
        x: AttentionInput,
        key_pages: KVPages,
        value_pages: KVPages,
        step: AttentionMetadata,
        *,
        scale: float,
        window: int | None = None,
        soft_cap: float | None = None,
    ) -> Activations:
        """See `Operations`."""
        if step.last_seen is not None:  # a few steps of prompts, for which there is no kernel
            found = super().attend(
                x, key_pages, value_pages, step, scale=scale, window=window, soft_cap=soft_cap
            )
            return found if x.wants_dense else self.activations(dense(found))
        # What else reads numbers quantises what it makes of them.
        wanted = ActivationForms(self.dtype) if x.wants_dense else self._wanted(len(x.query))
        bias_query = launch_rope_append(self._library, x, key_pages, value_pages, step.slot_mapping)
        partials = self._attention.attend(
            x.query,
            bias_query,
            key_pages,
            value_pages,
            step,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            sinks=x.sinks,
            wanted=wanted if self._fuses_combining else None,
        )
        if partials.combined is not None:
            return partials.combined
        return launch_attention_combine(
            self._library,
            partials,
            rotated=isinstance(value_pages, QuantizedKVPages),
            dense=wanted.dense is not None,
            tiles=wanted.tiles,
        )

    def _wanted(self, tokens: int) -> ActivationForms:
        """The forms in which the model's layers read so many rows."""
        ways = [self._products.uses_int8_activations(kind, tokens) for kind in self._kinds]
        needs_dense = self._needs_dense or self.adapters.any or not all(ways)
        needs_tiles = any(ways) or bool(self._of_experts)
        return ActivationForms(self.dtype if needs_dense else None, needs_tiles)
