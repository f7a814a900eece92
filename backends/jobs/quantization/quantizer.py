"""The quantisation job: writes a smaller file in a child process, run as `python -P -m`."""

from __future__ import annotations

from pathlib import Path

from ...confinement.access_policy import AccessPolicy, task_access_policy
from ..child_main import Send, require_torch, run_task
from ..child_task import ChildTask
from .messages import QuantizeProgress, QuantizeReport, QuantizeSpec

run_quantization = ChildTask(
    "ingle.backends.jobs.quantization.quantizer",
    "quantises the model",
    progress=QuantizeProgress,
    result=QuantizeReport,
).run
"""Takes a `QuantizeSpec`; raises what `ChildTask.run` raises."""


def _work(spec: QuantizeSpec, send: Send) -> QuantizeReport:
    if Path(spec.source).is_dir():
        require_torch("Reading a folder of safetensors")
    if spec.target.is_folder:
        from .folder_quantization import quantize_folder

        return quantize_folder(spec, send)
    from .importance import is_matrix
    from .quantization import quantize

    if spec.importance and not is_matrix(Path(spec.importance)):
        require_torch("Measuring which weights matter")
    return quantize(spec, send)


def _policy(spec: QuantizeSpec) -> AccessPolicy:
    read = [path for path in (spec.source, spec.adapter, spec.importance) if path]
    return task_access_policy(
        *read, output=spec.output, computes=bool(spec.importance) or spec.target.is_folder
    )


if __name__ == "__main__":
    run_task(QuantizeSpec, _work, _policy)
