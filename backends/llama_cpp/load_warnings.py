"""Warnings about settings of a load specification that llama.cpp did not apply."""

from __future__ import annotations

from ..base.load_spec import LoadSpec
from .native_log import NativeLog


def load_warnings(spec: LoadSpec, log: NativeLog, layers: int) -> list[str]:
    """Return a sentence for each; `layers` is the most that a GPU could take.

    llama.cpp continues without a GPU, without locked memory and without flash attention.
    """
    warnings: list[str] = []
    if log.layers_on_gpu < min(spec.gpu_layers, layers):
        found = (
            f"{log.layers_on_gpu} are on a GPU; the others run on the CPU"
            if log.gpus
            else "llama.cpp finds no GPU it can use; all layers run on the CPU"
        )
        warnings.append(f"gpu_layers is {spec.gpu_layers}, but {found}.")
    if spec.mlock and log.lock_failure:
        warnings.append(
            f"The weights are not locked in memory ({log.lock_failure}) and may be swapped out; "
            "raise the limit of locked memory (ulimit -l) and load the model again."
        )
    if spec.flash_attention == "on" and not log.flash_attention:
        warnings.append("llama.cpp has no flash attention for this model; it computes without.")
    return warnings
