"""The process that verifies one model, run as `python -P -m` with this module's name.

Two engines and a stranger's file are loaded here, none of which belongs into a daemon or a command.
"""

from __future__ import annotations

from importlib.util import find_spec

from ...base.errors import LoadFailed
from ...confinement.access_policy import AccessPolicy, task_workplace
from ..child_main import Send, run_task
from .messages import Report, VerificationSpec


def _work(spec: VerificationSpec, send: Send) -> Report:
    if find_spec("torch") is None:
        raise LoadFailed(
            "The engine to verify needs PyTorch, which is not installed.",
            hint="Install ingle with its extra `cuda`: pip install 'ingle[cuda]'.",
        )
    from .verification import verify

    return verify(spec, send)


def _workplace(spec: VerificationSpec) -> AccessPolicy:
    return task_workplace(spec.path)


if __name__ == "__main__":
    run_task(VerificationSpec, _work, _workplace)
