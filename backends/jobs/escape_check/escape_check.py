"""The process that attempts to escape, run as `python -P -m`, confined as a worker is."""

from __future__ import annotations

from pathlib import Path

from ...confinement.access_policy import AccessPolicy
from ..child_main import Send, run_task
from ..child_task import ChildTask
from .escape_attempts import ATTEMPTS, LARGEST, known_gap
from .messages import EscapeAttempt, EscapesAttempted, EscapeSpec

run_escapes = ChildTask(
    "ingle.backends.jobs.escape_check.escape_check",
    "checks the confinement of models",
    progress=EscapeAttempt,
    result=EscapesAttempted,
).run
"""Takes an `EscapeSpec`, and passes each attempt on; raises what `ChildTask.run` raises."""


def _work(spec: EscapeSpec, send: Send) -> EscapesAttempted:
    for kind, attempts in ATTEMPTS.items():
        for name, attempt in attempts.items():
            known = known_gap(kind, drives_gpu=spec.drives_gpu)
            error = ""
            try:
                attempt(spec)
            except OSError as stopped:
                error = f"{type(stopped).__name__}: {stopped.strerror}"
            send(EscapeAttempt(name=name, kind=kind, stopped=bool(error), error=error, known=known))
    return EscapesAttempted()


def _policy(spec: EscapeSpec) -> AccessPolicy | None:
    """Return what a worker with this KV store may access."""
    if not spec.confined:
        return None
    kv = Path(spec.kv)
    return AccessPolicy((kv / "own",), (kv,), (kv,), spec.drives_gpu, LARGEST)


if __name__ == "__main__":
    run_task(EscapeSpec, _work, _policy)
