"""One decoder block: attention or a recurrent layer, and an MLP, with RMS norms."""

from __future__ import annotations

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.recurrent.recurrent_shapes import DeltaNetShape, ShortConvShape, StateSpaceShape

from ..config.model_config import Activation, ModelConfig
from ..families.family import Family, NormPlacement
from .attention import Attention, AttentionContext
from .expert_mlp import ExpertMLP
from .gated_delta_net import GatedDeltaNet
from .gated_mlp import GatedMLP
from .latent_attention import LatentAttention
from .laurel import Laurel
from .layer_input import LayerInputGate
from .parallel_experts import ParallelExperts
from .parameters import Parameters, RMSNorm
from .plain_mlp import PlainMLP
from .rotary_embedding import RotaryTables
from .short_convolution import ShortConvolution
from .state_space import StateSpace

Mixer = Attention | LatentAttention | ShortConvolution | GatedDeltaNet | StateSpace
"""What mixes a token with those before it; it has an input, and the layer `output`."""
MLP = GatedMLP | PlainMLP | ExpertMLP | ParallelExperts


class DecoderBlock:
    """`x += post_norm(mixer(norm(x))); x += post_norm(mlp(norm(x)))`.

    The mixer is attention, or a layer with a state. The family's `norm_placement` says which of the
    norms there are; a layer of one part has one of its own. Without post norms each addend is
    scaled by `residual_scale`. Some families have more: a linear layer beside attention, a third
    addend of the layer's own input, a scale of the sum.
    """

    def __init__(
        self, layer: int, config: ModelConfig, family: Family, parameters: Parameters
    ) -> None:
        self._operations = parameters.operations
        self._sums = parameters.sums
        self._scale = config.residual_scale

        def norm(name: str, *placements: NormPlacement) -> RMSNorm | None:
            if family.norm_placement not in placements:
                return None
            name = f"blk.{layer}.{name}"
            return parameters.norm(name, config.hidden_size, config.norm_epsilon)

        before, after = NormPlacement.BEFORE, NormPlacement.AFTER
        both = NormPlacement.BOTH
        kinds = config.layers[layer]
        self.mixer: Mixer | None = None
        self._mlp: MLP | None = None
        self._laurel: Laurel | None = None
        self._input_gate: LayerInputGate | None = None
        self._output_scale = parameters.optional_vector(f"blk.{layer}.layer_output_scale.weight", 1)
        if kinds.has_mixer:
            self._attention_norm = norm("attn_norm", before, both)
            self._post_attention_norm = norm("post_attention_norm", after, both)
            self.mixer = _mixer(layer, config, family, parameters)
        if kinds.has_mlp:
            self._mlp_norm = norm("ffn_norm" if kinds.has_mixer else "attn_norm", before, both)
            self._post_mlp_norm = norm("post_ffw_norm", after, both)
            self._mlp = _mlp(layer, config, parameters)
        if config.streams is not None:
            self._laurel = Laurel(layer, config, config.streams.laurel_rank, parameters)
        elif config.layer_input_width:
            self._input_gate = LayerInputGate(layer, config, parameters)

    @property
    def input_norm(self) -> RMSNorm | None:
        """The norm of what its first part reads; None if that reads the residual stream itself."""
        return self._mlp_norm if self.mixer is None else self._attention_norm

    def __call__(
        self,
        residual: torch.Tensor,
        tables: RotaryTables | None,
        context: AttentionContext,
        inputs: torch.Tensor | None = None,
        x: Activations | None = None,
        following: RMSNorm | None = None,
    ) -> Activations | None:
        """Add the mixer and the MLP to the residual stream (tokens, hidden) fp32, in place.

        `inputs` (tokens, width) are those of the layer, if the model has any. `x` is what its input
        norm makes of the stream, if that is known. Returns what `following` does, if that comes of
        the same launch.
        """
        if self._input_gate is not None or self._output_scale is not None:
            following = None  # the stream changes once more
        if self.mixer is not None:
            between = self._normalized(residual, self._attention_norm) if x is None else x
            after = following if self._mlp is None else self._mlp_norm
            if self._laurel is not None:
                after = None
            x = self.mixer(between, tables, context)
            x = self._add(residual, x, self.mixer.output, self._post_attention_norm, after)
            if self._laurel is not None:
                self._laurel.add_to(residual, between)
        if self._mlp is not None:
            x = self._add_mlp(residual, x, self._mlp, following)
        if self._input_gate is not None and inputs is not None:
            residual.add_(self._input_gate(residual, inputs))
        if self._output_scale is not None:
            residual.mul_(self._output_scale)
        return x

    def _add_mlp(
        self,
        residual: torch.Tensor,
        x: Activations | None,
        mlp: MLP,
        following: RMSNorm | None,
    ) -> Activations | None:
        x = self._normalized(residual, self._mlp_norm) if x is None else x
        if isinstance(mlp, ParallelExperts):
            self._add_rows(residual, mlp(x, residual), self._post_mlp_norm)
        elif isinstance(mlp, ExpertMLP):
            self._add_rows(residual, mlp(x), self._post_mlp_norm)
        else:
            return self._add(residual, mlp(x), mlp.down, self._post_mlp_norm, following)
        return None

    def _normalized(self, residual: torch.Tensor, norm: RMSNorm | None) -> Activations:
        return self._operations.activations(residual) if norm is None else norm(residual)

    def _add(
        self,
        residual: torch.Tensor,
        x: Activations,
        layer: LinearLayer,
        norm: RMSNorm | None,
        following: RMSNorm | None,
    ) -> Activations | None:
        """Add the layer's outputs; return what the norm `following` makes of the sums, if any."""
        if norm is not None or layer.is_summed:
            self._add_rows(residual, self._sums.linear(x, layer), norm)
            return None
        if following is None:
            self._operations.linear_add(residual, x, layer, self._scale)
            return None
        return self._operations.linear_add_norm(residual, x, layer, self._scale, following.of_rows)

    def _add_rows(self, residual: torch.Tensor, rows: torch.Tensor, norm: RMSNorm | None) -> None:
        if norm is None:
            residual.add_(rows, alpha=self._scale)
        else:
            norm.add_to(residual, rows)


def _mixer(layer: int, config: ModelConfig, family: Family, parameters: Parameters) -> Mixer:
    recurrent = config.layers[layer].recurrent
    if isinstance(recurrent, ShortConvShape):
        return ShortConvolution(layer, config.hidden_size, recurrent, parameters)
    if isinstance(recurrent, DeltaNetShape):
        return GatedDeltaNet(layer, config, recurrent, parameters)
    if isinstance(recurrent, StateSpaceShape):
        return StateSpace(layer, config, recurrent, parameters)
    if config.latent is not None:
        return LatentAttention(layer, config, config.latent, parameters)
    return Attention(layer, config, parameters, family.query_key_norm)


def _mlp(layer: int, config: ModelConfig, parameters: Parameters) -> MLP:
    kinds = config.layers[layer]
    if kinds.experts is not None:
        kind = ParallelExperts if kinds.parallel_experts else ExpertMLP
        return kind(layer, config, kinds.experts, parameters)
    name, width = f"blk.{layer}.ffn_{{}}", config.mlp_width_of(layer)
    if config.activation is Activation.RELU_SQUARED:
        return PlainMLP(name, width, config, parameters)
    return GatedMLP(name, width, config, parameters, kinds.sparsity)
