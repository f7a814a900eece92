from __future__ import annotations

from pathlib import Path

import pytest

from ingle.tui.composing.paste_content import clean_paste, dropped_paths, is_long


def test_what_terminals_put_around_a_paste_goes() -> None:
    assert clean_paste("\x1b[200~rm -rf\r\n[201~\x1b]0;title\x07ok\x1b[201~") == "rm -rf\nok"


def test_ordinary_text_stays_as_it_is() -> None:
    assert clean_paste("if a[200] > b:\n\treturn") == "if a[200] > b:\n\treturn"


@pytest.mark.parametrize(
    ("text", "long"),
    [("x" * 1_000, False), ("x" * 1_001, True), ("a\n" * 9 + "b", False), ("a\n" * 10 + "b", True)],
)
def test_long_is_more_than_ten_lines_or_a_thousand_characters(text: str, long: bool) -> None:
    assert is_long(text) is long


def test_dropped_files_are_told_in_every_way_terminals_quote(tmp_path: Path) -> None:
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
def test_everything_else_is_text(text: str) -> None:
    assert dropped_paths(text) == []
