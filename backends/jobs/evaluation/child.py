"""Child process that evaluates one model, run as `python -P -m`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ...base.errors import LoadFailed
from ...confinement.access_policy import AccessPolicy, task_access_policy
from ..child_main import Send, run_task
from .messages import EvaluationReport, EvaluationSpec


def _work(spec: EvaluationSpec, send: Send) -> EvaluationReport:
    folders = [path for path in (spec.path, spec.fuller_path) if Path(path).is_dir()]
    if folders and find_spec("torch") is None:
        raise LoadFailed(
            "Reading a folder of safetensors needs PyTorch, which is not installed.",
            hint="Install ingle with its extra `cuda`: pip install 'ingle[cuda]'.",
        )
    from .evaluation import evaluate

    return evaluate(spec, send)


def _policy(spec: EvaluationSpec) -> AccessPolicy:
    return task_access_policy(spec.path, spec.fuller_path)


if __name__ == "__main__":
    run_task(EvaluationSpec, _work, _policy)
