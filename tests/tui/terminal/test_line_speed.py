"""How much output may be on its way to the terminal."""

from __future__ import annotations

from ingle.tui.terminal.line_speed import FIRST, LEAST, PATIENCE, LineSpeed


def replying() -> LineSpeed:
    speed = LineSpeed()
    speed.replied(0.0)
    return speed


def on_a_line_of(characters_a_second: int, *, way: float = 0.01) -> LineSpeed:
    """A speed learned from much output."""
    speed = replying()
    speed.sent(1, 0.0)
    speed.replied(way)
    now = way
    for _ in range(30):
        room = speed.room(now)
        speed.sent(room, now)
        now += way + room / characters_a_second
        speed.replied(now)
    return speed


def test_without_replies_pieces_follow_each_other() -> None:
    speed = LineSpeed()
    speed.sent(FIRST, 0.0)
    assert speed.room(0.0) == FIRST
    assert not speed.expects_reply


def test_only_so_much_is_on_its_way() -> None:
    speed = replying()
    speed.sent(FIRST + 10, 0.0)
    assert speed.room(0.5) == 0
    assert speed.patience(0.5) == PATIENCE - 0.5
    assert speed.expects_reply
    speed.replied(0.5)
    assert speed.room(0.5) > 0
    assert not speed.expects_reply


def test_a_slow_line_gets_little_ahead() -> None:
    assert LEAST <= on_a_line_of(20_000).room(100.0) < 0.1 * 20_000


def test_a_fast_line_gets_whole_frames() -> None:
    assert on_a_line_of(50_000_000).room(100.0) > 100_000


def test_a_fast_line_that_is_long_gets_whole_frames() -> None:
    assert on_a_line_of(5_000_000, way=0.2).room(100.0) > 100_000


def test_replies_that_begin_to_take_long_do_not_slow_a_fast_line_down() -> None:
    speed = on_a_line_of(50_000_000, way=0.001)
    now = 10.0
    for _ in range(40):
        speed.sent(speed.room(now), now)
        now += 0.1
        speed.replied(now)
    assert speed.room(now) > 50_000


def test_a_slow_program_is_no_slow_line() -> None:
    speed = replying()
    for number in range(50):
        speed.sent(20, float(number))
        speed.replied(number + 0.05)
    assert speed.room(100.0) >= FIRST


def test_little_that_takes_long_tells_of_a_slow_line() -> None:
    speed = replying()
    speed.sent(1, 0.0)
    speed.replied(0.01)
    speed.sent(FIRST // 2, 1.0)
    speed.replied(1.5)
    assert speed.room(2.0) < FIRST // 2


def test_a_terminal_that_stops_replying_is_not_waited_for() -> None:
    speed = replying()
    speed.sent(FIRST, 0.0)
    assert speed.room(PATIENCE) == FIRST
    assert not speed.replies
    speed.replied(9.0)
    assert speed.replies
