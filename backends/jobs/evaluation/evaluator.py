"""The evaluation job: compares two models in a child process, run as `python -P -m`."""

from __future__ import annotations

from pathlib import Path

from ...confinement.access_policy import task_access_policy
from ..child_main import Send, require_torch, run_task
from ..child_task import ChildTask
from .messages import EvaluationProgress, EvaluationReport, EvaluationSpec

run_evaluation = ChildTask(
    "ingle.backends.jobs.evaluation.evaluator",
    "compares the models",
    progress=EvaluationProgress,
    result=EvaluationReport,
).run
"""Takes an `EvaluationSpec`; raises what `ChildTask.run` raises."""


def _work(spec: EvaluationSpec, send: Send) -> EvaluationReport:
    if Path(spec.path).is_dir() or Path(spec.fuller_path).is_dir():
        require_torch("Reading a folder of safetensors")
    from .evaluation import evaluate

    return evaluate(spec, send)


if __name__ == "__main__":
    run_task(EvaluationSpec, _work, lambda spec: task_access_policy(spec.path, spec.fuller_path))
