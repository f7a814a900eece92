"""Cleaning text of terminal control sequences, whole and in a stream."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.tui.text.terminal_safe_text import StreamCleaner, clean

hostile = st.lists(
    st.sampled_from(
        ["\x1b", "[", "]", "31m", "0;", "\x07", "\\", "\r", "\n", "\x9b", "\x9d", "\x90", "P", "a",
         "é", "\t", "\0", "\u202e", "\ud800", "\x7f", "(B", "漢", " ", "\x1b\\", "52;c;eA==",
         "\u0301", "\u0316\u0317\u0318\u0319", "\u2028", "\xad"]
    )
).map("".join)  # fmt: skip


@given(hostile, st.lists(st.integers(0, 100)))
@pytest.mark.slow
def test_streamed_text_is_cleaned_like_the_whole(text: str, cuts: list[int]) -> None:
    borders = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    cleaner = StreamCleaner()
    parts = [cleaner.feed(text[a:b]) for a, b in itertools.pairwise(borders)]
    assert "".join(parts) + cleaner.flush() == clean(text)


@pytest.mark.parametrize("length", [10, 499, 500, 501, 511, 512, 2000])
@pytest.mark.parametrize("start", ["\x1b]", "\x1b[", "\x9d"])
def test_long_sequences_are_cleaned_alike_in_a_stream(start: str, length: int) -> None:
    text = f"a{start}{'1' * length}\x07b"
    cleaner = StreamCleaner()
    assert "".join(map(cleaner.feed, text)) + cleaner.flush() == clean(text)


@given(st.one_of(hostile, st.text()))
def test_no_control_characters_remain(text: str) -> None:
    result = clean(text)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in result)
    assert not any(127 <= ord(c) < 160 for c in result)
    result.encode("utf-8")
    assert clean(result) == result


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_unchanged(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\x", "x"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b]never closed\nnext line", "]never closed\nnext line"),
        ("tab\tkept", "tab\tkept"),
        ("\x1bc reset", " reset"),
        ("ab\u202ecd", "abcd"),
        ("soft\xadhyphen", "softhyphen"),
        ("e\u0301", "e\u0301"),
        ("Z" + "\u0335" * 40 + "algo", "Z" + "\u0335" * 6 + "algo"),
        ("one\u2028two\u2029three\x85four", "one\ntwo\nthree\nfour"),
        ("tags \U000e0041\U000e0042 hidden", "tags  hidden"),
    ],
)
def test_control_sequences_are_removed(text: str, result: str) -> None:
    assert clean(text) == result
