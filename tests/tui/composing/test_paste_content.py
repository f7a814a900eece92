"""Pasted text: cleaning, long pastes, and dropped files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.tui.composing.paste_content import clean_paste, dropped_paths, is_long


def test_bracketed_paste_sequences_are_removed() -> None:
    assert clean_paste("\x1b[200~rm -rf\r\n[201~\x1b]0;title\x07ok\x1b[201~") == "rm -rf\nok"


def test_ordinary_text_is_unchanged() -> None:
    assert clean_paste("if a[200] > b:\n\treturn") == "if a[200] > b:\n\treturn"


@pytest.mark.parametrize(
    ("text", "long"),
    [("x" * 1_000, False), ("x" * 1_001, True), ("a\n" * 9 + "b", False), ("a\n" * 10 + "b", True)],
)
def test_paste_is_long_above_ten_lines_or_1000_characters(text: str, long: bool) -> None:
    assert is_long(text) is long


def test_dropped_files_are_parsed_with_all_terminal_quotings(tmp_path: Path) -> None:
    one, two = tmp_path / "a b.txt", tmp_path / "c's.txt"
    for file in (one, two):
        file.write_text("x")
    escaped = str(one).replace(" ", "\\ ")
    assert dropped_paths(f"'{one}' ") == [one]
    assert dropped_paths(escaped) == [one]
    assert dropped_paths(one.as_uri()) == [one]
    assert dropped_paths(f'"{two}"\n{escaped}') == [two, one]


@pytest.mark.parametrize(
    "text", ["", "/no/such/file", "hello", "/tmp and more", "file://host/tmp", "'/tmp", "/\0"]
)
def test_other_text_is_not_a_dropped_file(text: str) -> None:
    assert dropped_paths(text) == []
