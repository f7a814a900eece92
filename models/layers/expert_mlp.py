"""The MLP of a layer with experts: a router, the experts that it picks, and a shared one."""

from __future__ import annotations

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.matmul.expert_layers import ExpertLayers
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.operations import dense

from ..config.model_config import Activation, ExpertConfig, ExpertScores, ModelConfig
from .gated_mlp import GatedMLP, gate_activation
from .parameters import Parameters
from .plain_mlp import PlainMLP


class ExpertRouter:
    """Picks the experts of each token, and weights them."""

    def __init__(
        self, layer: int, hidden: int, experts: ExpertConfig, parameters: Parameters
    ) -> None:
        self._experts = experts
        self._operations = parameters.operations
        self._gate = parameters.linear(f"blk.{layer}.ffn_gate_inp", experts.count, hidden)
        self._correction = parameters.optional_vector(
            f"blk.{layer}.exp_probs_b.bias", experts.count
        )
        self._scales = parameters.optional_vector(f"blk.{layer}.ffn_down_exps.scale", experts.count)

    def __call__(self, x: Activations) -> tuple[torch.Tensor, torch.Tensor]:
        """The experts (tokens, used) int64 and their weights (tokens, used) fp32."""
        experts = self._experts
        (logits,) = self._operations.linear(x, self._gate, dtype=torch.float32)
        by_softmax = experts.scores is ExpertScores.SOFTMAX
        all_equal = self._correction is None and experts.groups_used == experts.groups
        if by_softmax and all_equal and experts.normalized:
            # Divided by the sum of those picked, it is the softmax of these alone.
            best = logits.topk(experts.used, -1)
            picked, weights = best.indices, best.values.softmax(-1)
        else:
            picked, weights = self._picked(logits.softmax(-1) if by_softmax else logits.sigmoid())
        if self._scales is not None:
            weights = weights * self._scales[picked]
        return picked, weights if experts.scale == 1.0 else weights * experts.scale

    def _picked(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The experts with the best scores (tokens, count), and what their scores are."""
        experts = self._experts
        # The correction, which balanced the load in training, only counts for the choice.
        ranked = scores if self._correction is None else scores + self._correction
        if experts.groups_used < experts.groups:
            ranked = self._within_best_groups(ranked)
        picked = ranked.topk(experts.used, -1).indices
        weights = scores.gather(1, picked)
        if experts.normalized:
            weights = weights / weights.sum(-1, keepdim=True)
        return picked, weights

    def _within_best_groups(self, ranked: torch.Tensor) -> torch.Tensor:
        """The scores, those outside the groups with the best pairs as minus infinity."""
        groups = ranked.view(len(ranked), self._experts.groups, -1)
        best = groups.topk(2, -1).values.sum(-1).topk(self._experts.groups_used, -1).indices
        chosen = torch.zeros(groups.shape[:2], dtype=torch.bool, device=ranked.device)
        chosen.scatter_(1, best, value=True)
        return groups.masked_fill(~chosen[..., None], -torch.inf).flatten(1)


class ExpertMLP:
    """The outputs of the picked experts, weighted and summed, and of the shared one if any."""

    def __init__(
        self, layer: int, config: ModelConfig, experts: ExpertConfig, parameters: Parameters
    ) -> None:
        hidden, width, count = config.hidden_size, experts.width, experts.count
        prefix = f"blk.{layer}.ffn"
        self._operations = parameters.operations
        self._sums = parameters.sums
        self._route = ExpertRouter(layer, hidden, experts, parameters)
        self._narrow: LinearLayer | None = None
        self._widen: LinearLayer | None = None
        if experts.latent:
            self._narrow = parameters.linear(f"{prefix}_latent_down", experts.latent, hidden)
            self._widen = parameters.linear(f"{prefix}_latent_up", hidden, experts.latent)
        inner = experts.latent or hidden
        self._own: range | None = None
        if parameters.part is not None:
            self._own = parameters.part.shard.experts(count)
            count = len(self._own)
        is_gated = config.activation is not Activation.RELU_SQUARED
        up = parameters.experts(f"{prefix}_up_exps", count, width, inner)
        self._experts = ExpertLayers(
            parameters.experts(f"{prefix}_gate_exps", count, width, inner) if is_gated else up,
            up,
            parameters.experts(f"{prefix}_down_exps", count, inner, width),
            gate_activation(config),
        )
        self._shared: GatedMLP | PlainMLP | None = None
        self._shared_gate: torch.Tensor | None = None
        if experts.shared_width:
            kind = GatedMLP if is_gated else PlainMLP
            self._shared = kind(f"{prefix}_{{}}_shexp", experts.shared_width, config, parameters)
        if experts.shared_gate:
            self._shared_gate = parameters.vector(f"{prefix}_gate_inp_shexp.weight", hidden)

    def __call__(self, x: Activations, routed: Activations | None = None) -> torch.Tensor:
        """(tokens, hidden) fp32; the experts are picked by `routed` if it is given, else by `x`."""
        picked, weights = self._route(x if routed is None else routed)
        if self._own is not None:
            picked, weights = _among(self._own, picked, weights)
        inner = x
        if self._narrow is not None:
            (rows,) = self._operations.linear(x, self._narrow)
            inner = self._operations.activations(rows)
        found = self._operations.experts(inner, self._experts, picked, weights)
        if self._widen is not None:
            (found,) = self._operations.linear(
                self._operations.activations(found), self._widen, dtype=torch.float32
            )
        if self._shared is not None:
            (shared,) = self._operations.linear(
                self._shared(x), self._shared.down, dtype=torch.float32
            )
            if self._shared_gate is None:
                found = found + shared
            else:
                gate = (dense(x).float() @ self._shared_gate).sigmoid()
                found = torch.addcmul(found, shared, gate[:, None])
        return self._sums(found)


def _among(
    own: range, picked: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The picks of a rank, as numbers of its `own` experts; those of others have no weight."""
    is_own = (picked >= own.start) & (picked < own.stop)
    return (picked - own.start).clamp(0, len(own) - 1), weights * is_own
