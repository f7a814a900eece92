"""`EscapeFilter` removes terminal control sequences from generated text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.daemon.terminal.unsafe_characters import EscapeFilter

CASES = [
    ("plain\n\ttext — ünï", "plain\n\ttext — ünï"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[?1049h\x1b[2J\x1b[1;1Hx", "x"),
    ("\x1b]0;title\x07a\x1b]52;c;ZXZpbA==\x1b\\b", "ab"),
    ("\x1bPq#0;2\x1b\\c", "c"),
    ("\x1bc\x1b7\x1b(0d", "d"),
    ("a\x08b\rc\x00\x07\x7f\x9b31md", "abc31md"),
    ("end\x1b[", "end"),
]


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_filters_sequences_in_one_piece(text: str, shown: str) -> None:
    assert EscapeFilter().feed(text) == shown


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_filters_sequences_split_into_characters(text: str, shown: str) -> None:
    escapes = EscapeFilter()
    assert "".join(escapes.feed(character) for character in text) == shown


def test_unterminated_sequence_is_not_buffered_without_limit() -> None:
    escapes = EscapeFilter()
    shown = "".join(escapes.feed(piece) for piece in ["\x1b]0;", *["x" * 100] * 100])
    assert len(shown) > 5000
    assert "\x1b" not in shown


@given(st.lists(st.text(alphabet=list("\x1b[]P0;mhc\\\x07\n\x9b ab"))))
def test_output_contains_no_control_characters(pieces: list[str]) -> None:
    escapes = EscapeFilter()
    shown = "".join(escapes.feed(piece) for piece in pieces)
    assert all(c == "\n" or (c >= " " and not "\x7f" <= c <= "\x9f") for c in shown)
