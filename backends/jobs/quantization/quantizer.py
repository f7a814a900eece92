"""Runs a quantisation in a child process."""

from __future__ import annotations

from collections.abc import Callable

from ..child_task import ChildTask
from .messages import QuantizeProgress, QuantizeReport, QuantizeSpec

_TASK = ChildTask(
    "ingle.backends.jobs.quantization.child",
    "quantises the model",
    progress=QuantizeProgress,
    result=QuantizeReport,
)


def run_quantization(
    spec: QuantizeSpec, on_progress: Callable[[QuantizeProgress], None]
) -> QuantizeReport:
    """Quantise in a child process; raises what `ChildTask.run` raises."""
    return _TASK.run(spec, on_progress)
