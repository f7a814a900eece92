"""Runs an evaluation in a child process."""

from __future__ import annotations

from collections.abc import Callable

from ..child_task import ChildTask
from .messages import EvaluationProgress, EvaluationReport, EvaluationSpec

_TASK = ChildTask(
    "ingle.backends.jobs.evaluation.child",
    "compares the models",
    progress=EvaluationProgress,
    result=EvaluationReport,
)


def run_evaluation(
    spec: EvaluationSpec, on_progress: Callable[[EvaluationProgress], None]
) -> EvaluationReport:
    """Evaluate in a child process; raises what `ChildTask.run` raises."""
    return _TASK.run(spec, on_progress)
