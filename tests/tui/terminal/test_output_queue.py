"""What the terminal gets next."""

from __future__ import annotations

from textual._ansi_sequences import SYNC_END, SYNC_START  # pyright: ignore[reportPrivateUsage]

from ingle.tui.terminal.output_queue import OutputQueue

ALL = 1_000_000


def piece(row: int, text: str, column: int = 1) -> str:
    return f"\x1b[{row};{column}H{text}"


def frame(rows: range, text: str) -> str:
    return "\n".join(piece(row, text) for row in rows)


def test_a_frame_is_taken_row_by_row() -> None:
    queue = OutputQueue()
    queue.put(frame(range(1, 4), "\x1b[1manswer\x1b[0m"))
    assert queue.take(1) == piece(1, "\x1b[1manswer\x1b[0m")
    assert queue.take(ALL) == piece(2, "\x1b[1manswer\x1b[0m") + piece(3, "\x1b[1manswer\x1b[0m")
    assert not queue


def test_a_newer_frame_replaces_what_waits() -> None:
    queue = OutputQueue()
    queue.put(frame(range(1, 3), "old answer"))
    queue.put(frame(range(1, 3), "new answer"))
    assert queue.take(ALL) == piece(1, "new answer") + piece(2, "new answer")


def test_a_piece_that_covers_part_of_another_is_painted_after_it() -> None:
    queue = OutputQueue()
    queue.put(piece(1, "\x1b[2m漢字\x1b[0m after") + piece(1, "right", 20))
    queue.put(piece(1, "xx", 3))
    queue.put(piece(1, "wrong"))
    wide = piece(1, "\x1b[2m漢字\x1b[0m after")
    assert queue.take(ALL) == wide + piece(1, "right", 20) + piece(1, "wrong")


def test_typed_text_is_taken_before_other_rows() -> None:
    queue = OutputQueue()
    queue.put(frame(range(1, 5), "answer"))
    queue.put(piece(4, "draft", 3), first=True)
    assert queue.take(1) == piece(4, "answer") + piece(4, "draft", 3)
    assert queue.take(1) == piece(1, "answer")


def test_a_change_of_modes_comes_first_and_another_screen_drops_the_rows() -> None:
    queue = OutputQueue()
    queue.put(piece(9, "draft"), first=True)
    queue.put("\x1b[?1000h")
    assert queue.take(ALL) == "\x1b[?1000h" + piece(9, "draft")
    queue.put(piece(9, "draft"))
    queue.put("\x1b[?1049l")
    assert queue.take(ALL) == "\x1b[?1049l"
    assert not queue


def test_the_cursor_is_placed_once_the_screen_is_complete() -> None:
    queue = OutputQueue()
    queue.put(frame(range(1, 3), "answer") + piece(7, "", 4))
    queue.put(piece(2, "newer answer") + piece(8, "", 4))
    assert queue.take(1) == piece(1, "answer")
    assert queue.take(1) == piece(2, "newer answer") + piece(8, "", 4)


def test_a_whole_frame_is_synchronised_and_parts_are_not() -> None:
    queue = OutputQueue()
    for text in (SYNC_START, piece(1, "answer"), SYNC_END):
        queue.put(text)
    assert queue.take(ALL) == f"{SYNC_START}{piece(1, 'answer')}{SYNC_END}"
    queue.put(frame(range(1, 9), "answer"))
    assert SYNC_START not in queue.take(20)
