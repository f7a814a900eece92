"""Child process that verifies one model, run as `python -P -m`.

It loads two engines and an untrusted file, which must not happen in the daemon.
"""

from __future__ import annotations

from importlib.util import find_spec

from ...base.errors import LoadFailed
from ...confinement.access_policy import AccessPolicy, task_access_policy
from ..child_main import Send, run_task
from .messages import VerificationReport, VerificationSpec


def _work(spec: VerificationSpec, send: Send) -> VerificationReport:
    if find_spec("torch") is None:
        raise LoadFailed(
            "The engine to verify needs PyTorch, which is not installed.",
            hint="Install ingle with its extra `cuda`: pip install 'ingle[cuda]'.",
        )
    from .verification import verify

    return verify(spec, send)


def _policy(spec: VerificationSpec) -> AccessPolicy:
    return task_access_policy(spec.path)


if __name__ == "__main__":
    run_task(VerificationSpec, _work, _policy)
