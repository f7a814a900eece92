"""The verification job: compares two engines in a child process, run as `python -P -m`.

It loads both engines and an untrusted file, which must not happen in the daemon.
"""

from __future__ import annotations

from ...confinement.access_policy import task_access_policy
from ..child_main import Send, require_torch, run_task
from ..child_task import ChildTask
from .messages import VerificationProgress, VerificationReport, VerificationSpec

run_verification = ChildTask(
    "ingle.backends.jobs.verification.verifier",
    "compares the engines",
    progress=VerificationProgress,
    result=VerificationReport,
).run
"""Takes a `VerificationSpec`; raises what `ChildTask.run` raises."""


def _work(spec: VerificationSpec, send: Send) -> VerificationReport:
    require_torch("The engine to verify")
    from .verification import verify

    return verify(spec, send)


if __name__ == "__main__":
    run_task(VerificationSpec, _work, lambda spec: task_access_policy(spec.path))
