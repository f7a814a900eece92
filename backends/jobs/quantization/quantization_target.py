"""Target formats of quantisation."""

from __future__ import annotations

from enum import StrEnum


class QuantizationTarget(StrEnum):
    """A mix of tensor types, by its common name."""

    F16 = "F16"
    BF16 = "BF16"
    Q8_0 = "Q8_0"
    Q6_K = "Q6_K"
    Q5_K_M = "Q5_K_M"
    Q4_K_M = "Q4_K_M"
    Q4_0 = "Q4_0"

    @property
    def tensor_type(self) -> str:
        """Return the type that most tensors get."""
        return self.removesuffix("_M")

    @property
    def is_quantized(self) -> bool:
        """Return whether the loss exceeds float rounding."""
        return self not in (QuantizationTarget.F16, QuantizationTarget.BF16)
