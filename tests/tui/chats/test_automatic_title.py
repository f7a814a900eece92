"""Automatic chat titles, derived from the prompt without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.chats.automatic_title import MAX_TITLE, automatic_title, shorten


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("Hello! Can you please tell me how tides work?", "How tides work?"),
        ("hi", "hi"),
        ("hi there, could you fix my resume. It is long.", "Fix my resume"),
        ("```python\nprint(1)\n```\nWhy does this fail?", "Why does this fail?"),
        ("https://example.org/a?b=c summarize this page", "Summarize this page"),
        ("Please help me to write to Dr. Smith about e.g. rent. Thanks", None),
        ("你好，请问京都有什么好玩的地方？我想带父母去。", "京都有什么好玩的地方？"),
        ("今日の天気は？", "今日の天気は？"),
        ("Kannst du mir bitte erklären, wie Ebbe entsteht?", "Erklären, wie Ebbe entsteht?"),
        ("# Task\nFind the longest word in it.", "Find the longest word in it"),
        ("**Important**: see [the page](https://x.org)", "Important: see the page"),
        ("```\nfoo(bar)\n```", "foo(bar)"),
        ("<b>x</b>", "<b>x</b>"),
        ("", ""),
        ("...", ""),
        ("Tell me about \x1b[31mred\x1b[0m things", "About [31mred[0m things"),
    ],
)
def test_title_of_prompt(prompt: str, title: str | None) -> None:
    expected = "Write to Dr. Smith about e.g. rent" if title is None else title
    assert automatic_title(prompt) == expected


def test_long_title_is_cut_between_words() -> None:
    title = automatic_title("explain " + "why the sea is salty and rivers are not " * 5)
    assert len(title) <= MAX_TITLE
    assert title.endswith("…")
    assert title[:-1] in "Explain why the sea is salty and rivers are not why the sea is salty"


def test_wide_characters_count_as_two_cells() -> None:
    assert shorten("京" * 40, 60) == "京" * 29 + "…"
    assert shorten("京" * 30, 60) == "京" * 30


@given(st.text(max_size=300))
def test_any_prompt_gives_a_short_single_line_title(prompt: str) -> None:
    title = automatic_title(prompt)
    assert len(title) <= MAX_TITLE
    assert "\n" not in title
    assert "\x1b" not in title
