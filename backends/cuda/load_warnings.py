"""What a load specification asks for and our own engine does not do."""

from __future__ import annotations

from ..base.load_spec import LoadSpec
from .compute_backend import ComputeBackend
from .device import ComputeDevice


def load_warnings(
    spec: LoadSpec, where: ComputeDevice, backend: ComputeBackend, layers: int
) -> list[str]:
    """A sentence for each; `layers` is how many the model has."""
    warnings = [each for each in (where.warning, backend.warning) if each is not None]
    if 0 < spec.gpu_layers < layers:
        warnings.append(
            f"gpu_layers is {spec.gpu_layers}, but ingle's own engine computes all {layers} layers "
            "on one device."
        )
    if spec.mlock:
        warnings.append("The weights are not locked in memory: only llama.cpp does that.")
    if spec.flash_attention == "off":
        warnings.append("ingle's own engine has no other attention than flash attention.")
    return warnings
