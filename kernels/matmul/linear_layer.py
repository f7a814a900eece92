"""The weights of a linear layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..formats.weight import PreparedWeight


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """`weight` (outputs, inputs) from `Operations.prepare`, and `bias` (outputs,) fp32 or None."""

    weight: PreparedWeight
    bias: torch.Tensor | None = None

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.weight.shape[0]
