"""Runs a verification in a child process."""

from __future__ import annotations

from collections.abc import Callable

from ..child_task import ChildTask
from .messages import VerificationProgress, VerificationReport, VerificationSpec

_TASK = ChildTask(
    "ingle.backends.jobs.verification.child",
    "compares the engines",
    progress=VerificationProgress,
    result=VerificationReport,
)


def run_verification(
    spec: VerificationSpec, on_progress: Callable[[VerificationProgress], None]
) -> VerificationReport:
    """Compare in a child process; raises what `ChildTask.run` raises."""
    return _TASK.run(spec, on_progress)
