"""Child process that quantises one model, run as `python -P -m`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ...base.errors import LoadFailed
from ...confinement.access_policy import AccessPolicy, task_access_policy
from ..child_main import Send, run_task
from .messages import QuantizeReport, QuantizeSpec


def _work(spec: QuantizeSpec, send: Send) -> QuantizeReport:
    if Path(spec.source).is_dir() and find_spec("torch") is None:
        raise LoadFailed(
            "Reading a folder of safetensors needs PyTorch, which is not installed.",
            hint="Install ingle with its extra `cuda`: pip install 'ingle[cuda]'.",
        )
    from .quantization import quantize

    return quantize(spec, send)


def _policy(spec: QuantizeSpec) -> AccessPolicy:
    return task_access_policy(spec.source, output=spec.output, computes=False)


if __name__ == "__main__":
    run_task(QuantizeSpec, _work, _policy)
