"""Windows of a range that exceeds the context."""

from __future__ import annotations

import pytest

from ingle.tui.chats.context_view import ViewEntry
from ingle.tui.compaction.summary_windows import LEAST_ROOM, divide

pytestmark = pytest.mark.quick


def entries(*texts: str) -> list[ViewEntry]:
    """Prompts and answers in turn."""
    return [
        ViewEntry("assistant" if number % 2 else "user", text, "tail")
        for number, text in enumerate(texts)
    ]


def test_windows_hold_whole_turns() -> None:
    view = entries(*(f"{number} " * 100 for number in range(8)))
    windows = divide(view, [200] * 8, 1000)
    assert [len(window) for window in windows] == [4, 4]
    assert [entry for window in windows for entry in window] == view
    assert all(window[0].role == "user" for window in windows)


def test_turn_longer_than_a_window_loses_its_middle() -> None:
    view = entries("a" * 8000 + "z" * 8000, "short", "next", "answer")
    windows = divide(view, [4000, 5, 5, 5], 1000)
    assert [len(window) for window in windows] == [2, 2]
    cut = windows[0][0].content
    assert len(cut) < 4100
    assert cut.startswith("aaa")
    assert cut.endswith("zzz")
    assert "left out: 12" in cut


def test_window_has_a_least_size() -> None:
    assert len(divide(entries(*"abcd"), [LEAST_ROOM // 4] * 4, -100)) == 1
