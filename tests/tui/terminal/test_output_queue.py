"""What the terminal gets next."""

from __future__ import annotations

from textual._ansi_sequences import SYNC_END, SYNC_START  # pyright: ignore[reportPrivateUsage]

from ingle.tui.terminal.output_queue import FIRST, MOST, PATIENCE, QUERY, OutputQueue


def row(number: int, text: str) -> str:
    return f"\x1b[{number};1H{text}"


def frame(rows: range, text: str) -> str:
    return "\n".join(row(number, text) for number in rows)


def replying() -> OutputQueue:
    queue = OutputQueue()
    queue.replied(0.0)
    return queue


def test_without_replies_everything_is_written_at_once() -> None:
    queue = OutputQueue()
    queue.put(frame(range(1, 40), "x" * 5000))
    assert queue.wait_seconds(0.0) == 0.0
    assert queue.take(0.0) == frame(range(1, 40), "x" * 5000).replace("\n", "")
    assert queue.wait_seconds(0.0) is None


def test_only_so_much_is_on_its_way() -> None:
    queue = replying()
    queue.put(frame(range(1, 11), "x" * (FIRST // 4)))
    taken = queue.take(0.0)
    assert FIRST <= len(taken) < 2 * FIRST
    assert taken.endswith(QUERY)
    assert queue.wait_seconds(0.5) == PATIENCE - 0.5
    queue.replied(0.5)
    assert queue.wait_seconds(0.5) == 0.0


def on_a_line_of(characters_a_second: int) -> OutputQueue:
    """A queue that has learned a line's speed from many rows."""
    queue = replying()
    queue.put(row(1, "x"))
    queue.take(0.0)
    queue.replied(0.01)
    now = 0.01
    for _ in range(20):
        queue.put(frame(range(1, 40), "x" * 500))
        size = len(queue.take(now))
        now += 0.01 + size / characters_a_second
        queue.replied(now)
    while queue.wait_seconds(now) is not None:
        queue.take(now)
        queue.replied(now + 1)
    return queue


def test_a_slow_line_gets_little_ahead() -> None:
    queue = on_a_line_of(20_000)
    queue.put(frame(range(1, 40), "x" * 500))
    assert len(queue.take(100.0)) < 0.15 * 20_000


def test_a_fast_line_gets_whole_frames() -> None:
    queue = on_a_line_of(50_000_000)
    queue.put(frame(range(1, 40), "x" * 500))
    queue.take(100.0)
    assert queue.wait_seconds(100.0) is None


def test_a_slow_program_is_no_slow_line() -> None:
    queue = replying()
    for number in range(50):
        queue.put(row(1, "key"))
        queue.take(float(number))
        queue.replied(number + 0.05)
    queue.put(row(1, "x" * (FIRST - 20)))
    queue.put(row(2, "x"))
    assert "\x1b[2;1Hx" in queue.take(100.0)


def test_typed_text_is_written_before_other_rows() -> None:
    queue = replying()
    queue.put(frame(range(1, 5), "answer"))
    queue.put(row(4, "old draft"))
    queue.put(row(4, "new draft"), first=True)
    text = queue.take(0.0).removesuffix(QUERY)
    last = [row(4, "answer"), row(4, "old draft"), row(4, "new draft")]
    assert text == "".join([*last, *(row(n, "answer") for n in range(1, 4))])


def test_changes_of_modes_are_not_overtaken() -> None:
    queue = replying()
    queue.put(frame(range(1, 3), "answer"))
    queue.put("\x1b[?1049l")
    queue.put(row(9, "draft"), first=True)
    assert queue.take(0.0).removesuffix(QUERY).endswith("\x1b[?1049l" + row(9, "draft"))


def test_a_whole_frame_is_synchronised_and_parts_are_not() -> None:
    queue = replying()
    for text in (SYNC_START, row(1, "answer"), SYNC_END):
        queue.put(text)
    assert queue.take(0.0) == f"{SYNC_START}{row(1, 'answer')}{SYNC_END}{QUERY}"
    queue.replied(1.0)
    queue.put(frame(range(1, 9), "x" * FIRST))
    assert SYNC_START not in queue.take(1.0)


def test_a_terminal_that_stops_replying_gets_everything() -> None:
    queue = replying()
    queue.put(frame(range(1, 4), "x" * MOST))
    queue.take(0.0)
    assert queue.wait_seconds(PATIENCE) == 0.0
    assert len(queue.take(PATIENCE)) > 2 * MOST
    assert not queue.replies
    queue.replied(9.0)
    assert queue.replies
