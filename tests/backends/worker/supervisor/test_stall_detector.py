"""`StepWatch`: when a worker counts as stuck, with an artificial clock."""

from __future__ import annotations

from ingle.backends.worker.supervisor.stall_detector import (
    LONGEST_STEP,
    SHORTEST_BOUND,
    StepWatch,
    longest_step,
)


def watch() -> StepWatch:
    return StepWatch(15.0, 0.0, 0.0, 0.0)


def test_silent_idle_worker_is_stuck_at_the_first_check() -> None:
    assert "stopped answering" in str(watch().look(15.0, -1.0, 0.05, 0.0, 120.0))


def test_busy_worker_is_stuck_only_after_the_step_limit() -> None:
    stuck = watch()
    for second in range(15, 120, 15):
        assert stuck.look(float(second), -1.0, float(second), 0.0, 120.0) is None
    assert "within 120 seconds" in str(stuck.look(120.0, -1.0, 120.0, 0.0, 120.0))


def test_each_message_restarts_the_step_limit() -> None:
    watched = watch()
    for second in range(15, 600, 15):
        last_message = second - 1.0 if second % 105 == 0 else -1.0
        assert watched.look(float(second), last_message, float(second), 0.0, 120.0) is None


def test_suspended_daemon_does_not_report_a_stall_at_once() -> None:
    stopped = watch()
    assert stopped.look(3600.0, -1.0, 0.0, 0.0, 120.0) is None
    assert "stopped answering" in str(stopped.look(3615.0, -1.0, 0.0, 0.0, 120.0))


def test_wait_for_a_processor_is_neither_idle_nor_part_of_a_step() -> None:
    starved = watch()
    for second in range(15, 1200, 15):
        computed, waited = second / 1000, second * 0.95
        assert starved.look(float(second), -1.0, computed, waited, 120.0) is None
    waited = 1185 * 0.95
    for second in range(1200, 1260, 15):
        assert starved.look(float(second), -1.0, float(second), waited, 120.0) is None
    assert "within 134 seconds" in str(starved.look(1260.0, -1.0, 1260.0, waited, 120.0))


def test_step_limit_follows_the_speed_within_bounds() -> None:
    assert longest_step(512, 0.0) == LONGEST_STEP
    assert longest_step(512, 1e6) == SHORTEST_BOUND
    assert longest_step(512, 10.0) == 1024.0
    assert longest_step(512, 0.1) == LONGEST_STEP
