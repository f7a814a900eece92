"""Child process that verifies one model, run as `python -P -m`.

It loads two engines and an untrusted file, which must not happen in the daemon.
"""

from __future__ import annotations

from ...confinement.access_policy import task_access_policy
from ..child_main import Send, require_torch, run_task
from .messages import VerificationReport, VerificationSpec


def _work(spec: VerificationSpec, send: Send) -> VerificationReport:
    require_torch("The engine to verify")
    from .verification import verify

    return verify(spec, send)


if __name__ == "__main__":
    run_task(VerificationSpec, _work, lambda spec: task_access_policy(spec.path))
