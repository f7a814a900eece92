"""Attempts to leave the confinement of a worker, in a real process."""

from __future__ import annotations

import os
import sys

import pytest

from ingle.backends.confinement.landlock_rules import landlock_version
from ingle.backends.jobs.escape_check.escape_targets import attempt_escapes
from ingle.backends.jobs.escape_check.messages import EscapeAttempt

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="uses Linux features"),
    # Signals and abstract sockets outside are denied since the sixth.
    pytest.mark.skipif(landlock_version() < 6, reason="this kernel has no Landlock, or an old one"),
]


def successes(attempts: list[EscapeAttempt]) -> dict[str, str]:
    return {each.name: each.kind for each in attempts if not each.stopped}


def test_every_attempt_is_stopped_in_a_worker_without_a_gpu() -> None:
    attempts = attempt_escapes(drives_gpu=False)
    assert len(attempts) == len({each.name for each in attempts}) >= 50
    assert successes(attempts) == {}


def test_a_worker_with_a_gpu_can_only_start_programs() -> None:
    attempts = attempt_escapes(drives_gpu=True)
    found = successes(attempts)
    assert set(found.values()) == {"programs"}
    assert found.keys() == {each.name for each in attempts if each.known}


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="some attempts need privileges"
)
def test_attempts_succeed_without_confinement() -> None:
    """An attempt that cannot succeed would prove nothing."""
    failed = {each.name: each.error for each in attempt_escapes(confined=False) if each.stopped}
    # A container or a kernel may lack these; no confinement of ours is involved.
    optional = {"use io_uring", "use bpf", "use perf events", "use userfaultfd"}
    assert failed.keys() <= optional, failed
