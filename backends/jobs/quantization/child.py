"""Child process that quantises one model, run as `python -P -m`."""

from __future__ import annotations

from pathlib import Path

from ...confinement.access_policy import AccessPolicy, task_access_policy
from ..child_main import Send, require_torch, run_task
from .messages import QuantizeReport, QuantizeSpec


def _work(spec: QuantizeSpec, send: Send) -> QuantizeReport:
    if Path(spec.source).is_dir():
        require_torch("Reading a folder of safetensors")
    from .quantization import quantize

    return quantize(spec, send)


def _policy(spec: QuantizeSpec) -> AccessPolicy:
    return task_access_policy(spec.source, output=spec.output, computes=False)


if __name__ == "__main__":
    run_task(QuantizeSpec, _work, _policy)
