"""Runs a verification in a child process."""

from __future__ import annotations

from ..child_task import ChildTask
from .messages import VerificationProgress, VerificationReport

run_verification = ChildTask(
    "ingle.backends.jobs.verification.child",
    "compares the engines",
    progress=VerificationProgress,
    result=VerificationReport,
).run
"""Takes a `VerificationSpec`; raises what `ChildTask.run` raises."""
