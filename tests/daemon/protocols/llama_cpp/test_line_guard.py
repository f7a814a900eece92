"""Infill answers end at a less indented line, or at the line end after the time limit."""

from __future__ import annotations

import pytest

from ingle.daemon.protocols.llama_cpp.answers import LineGuard


@pytest.mark.parametrize(
    ("indent", "text", "kept"),
    [
        (0, "a\nb\n", "a\nb\n"),
        (4, "a\n    b\n    c", "a\n    b\n    c"),
        (4, "a\n    b\nc()\nd", "a\n    b\n"),
        (4, "a\n  b", "a\n  "),
        (4, "a\n\n    b", "a\n"),
        (2, "a\n\t\tb\n \tc\n\td", "a\n\t\tb\n \tc\n\t"),
        (4, "no line at all", "no line at all"),
        (4, "a\n    ", "a\n    "),
    ],
)
def test_less_indented_line_ends_the_answer(indent: int, text: str, kept: str) -> None:
    for size in (1, 3, 1000):
        guard = LineGuard(indent=indent)
        pieces = [guard.take(text[i : i + size]) for i in range(0, len(text), size)]
        assert "".join(pieces) == kept
        assert guard.ended is (kept != text)


def test_time_limit_ends_the_answer_at_a_line_end() -> None:
    guard = LineGuard(seconds=0.0)
    assert guard.take("def f") == "def f"
    assert not guard.ended
    assert guard.take("():\n    pass") == "():\n"
    assert guard.ended
    assert guard.take("more") == ""
