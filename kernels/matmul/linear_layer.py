"""The weights of a linear layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..formats.weight import PreparedWeight


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """`weight` (outputs, inputs) as `Operations.prepare` made it, and `bias` (outputs,) fp32."""

    weight: PreparedWeight
    bias: torch.Tensor | None = None

    @property
    def outputs(self) -> int:
        """Numbers that a row becomes."""
        return self.weight.shape[0]
