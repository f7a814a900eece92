"""The MLP and the experts of a layer of Gemma 4, side by side."""

from __future__ import annotations

import torch

from ingle.kernels.elementwise.activations import Activations

from ..config.model_config import ExpertConfig, ModelConfig
from .expert_mlp import ExpertMLP
from .gated_mlp import GatedMLP
from .parameters import Parameters, RMSNorm


class ParallelExperts:
    """`norm(mlp(x)) + norm(experts(norm(residual)))`, experts picked by a norm of their own."""

    def __init__(
        self, layer: int, config: ModelConfig, experts: ExpertConfig, parameters: Parameters
    ) -> None:
        hidden, epsilon, name = config.hidden_size, config.norm_epsilon, f"blk.{layer}"
        self._sums = parameters.sums
        width = config.mlp_width_of(layer)
        self._mlp = GatedMLP(f"{name}.ffn_{{}}", width, config, parameters)
        self._mlp_norm = parameters.norm(f"{name}.post_ffw_norm_1", hidden, epsilon)
        scale = parameters.vector(f"{name}.ffn_gate_inp.scale", hidden)
        self._router_norm = RMSNorm(parameters.operations, scale * hidden**-0.5, epsilon)
        self._before_experts = parameters.norm(f"{name}.pre_ffw_norm_2", hidden, epsilon)
        self._experts = ExpertMLP(layer, config, experts, parameters)
        self._after_experts = parameters.norm(f"{name}.post_ffw_norm_2", hidden, epsilon)

    def __call__(self, x: Activations, residual: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) fp32 of the MLP's input and of the residual stream before its norm."""
        rows = self._sums.linear(self._mlp(x), self._mlp.down, torch.float32)
        found = self._experts(self._before_experts(residual), self._router_norm(residual))
        total = torch.zeros_like(residual)
        self._mlp_norm.add_to(total, rows)
        self._after_experts.add_to(total, found)
        return total
