"""Runs an evaluation in a child process."""

from __future__ import annotations

from ..child_task import ChildTask
from .messages import EvaluationProgress, EvaluationReport

run_evaluation = ChildTask(
    "ingle.backends.jobs.evaluation.child",
    "compares the models",
    progress=EvaluationProgress,
    result=EvaluationReport,
).run
"""Takes an `EvaluationSpec`; raises what `ChildTask.run` raises."""
