"""The preview of Markdown in lists: its words on one line."""

from __future__ import annotations

import pytest

from ingle.tui.transcript.markdown.markdown_preview import preview


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "## Day 1\n\nArrive and **rest**; then *walk*\nto `Gion`.",
            "Day 1 Arrive and rest; then walk to Gion.",
        ),
        ("- one\n- [two](https://x.example)\n\n> three", "one two three"),
        ("```python\nx = 1\n```\nand $E = mc^2$", "x = 1 and E = mc²"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b 1 2"),
        ("a \x1b[31mred\x1b[0m word", "a red word"),
        ("", ""),
    ],
)
def test_markup_is_removed(source: str, words: str) -> None:
    assert preview(source) == words


def test_preview_is_limited_without_partial_markup() -> None:
    assert preview("word " * 1000, 20) == "word word word word "[:20]
    assert preview("**" + "b" * 100, 10) == "b" * 10
