"""Runs a quantization in a child process."""

from __future__ import annotations

from ..child_task import ChildTask
from .messages import QuantizeProgress, QuantizeReport

run_quantization = ChildTask(
    "ingle.backends.jobs.quantization.child",
    "quantises the model",
    progress=QuantizeProgress,
    result=QuantizeReport,
).run
"""Takes a `QuantizeSpec`; raises what `ChildTask.run` raises."""
