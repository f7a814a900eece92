"""Starts the process that evaluates a model, and hears it out."""

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
    """Evaluate in a process of its own; raises what `ChildTask.run` raises."""
    return _TASK.run(spec, on_progress)
