"""Starts the process that verifies a model, and hears it out."""

from __future__ import annotations

from collections.abc import Callable

from ..child_task import ChildTask
from .messages import Progress, Report, VerificationSpec

_TASK = ChildTask(
    "ingle.backends.jobs.verification.child",
    "compares the engines",
    progress=Progress,
    result=Report,
)


def run_verification(spec: VerificationSpec, on_progress: Callable[[Progress], None]) -> Report:
    """Compare in a process of its own; raises what `ChildTask.run` raises."""
    return _TASK.run(spec, on_progress)
