"""Tests of what counts as stuck, with a clock of the test's own."""

from __future__ import annotations

from ingle.backends.worker.supervisor.stall_detector import (
    LONGEST_STEP,
    SHORTEST_BOUND,
    StepWatch,
    longest_step,
)


def watch() -> StepWatch:
    return StepWatch(15.0, 0.0, 0.0)


def test_who_says_nothing_and_computes_nothing_is_stuck_at_the_first_look() -> None:
    assert "stopped answering" in str(watch().look(15.0, -1.0, 0.05, 120.0))


def test_a_step_may_take_its_time_as_long_as_it_computes_but_not_for_ever() -> None:
    stuck = watch()
    for second in range(15, 120, 15):
        assert stuck.look(float(second), -1.0, float(second), 120.0) is None
    assert "within 120 seconds" in str(stuck.look(120.0, -1.0, 120.0, 120.0))


def test_each_word_of_it_begins_the_wait_anew() -> None:
    heard = watch()
    for second in range(15, 600, 15):
        said = second - 1.0 if second % 105 == 0 else -1.0
        assert heard.look(float(second), said, float(second), 120.0) is None


def test_a_daemon_that_was_stopped_itself_blames_nobody() -> None:
    stopped = watch()
    assert stopped.look(3600.0, -1.0, 0.0, 120.0) is None
    assert "stopped answering" in str(stopped.look(3615.0, -1.0, 0.0, 120.0))


def test_the_bound_follows_the_speed_within_reason() -> None:
    assert longest_step(512, 0.0) == LONGEST_STEP
    assert longest_step(512, 1e6) == SHORTEST_BOUND
    assert longest_step(512, 10.0) == 1024.0
    assert longest_step(512, 0.1) == LONGEST_STEP
