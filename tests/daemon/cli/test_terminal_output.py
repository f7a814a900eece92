"""Formatting of tables, sizes, counts and durations."""

from __future__ import annotations

import pytest

from ingle.daemon.terminal.terminal_output import (
    format_bytes,
    format_count,
    format_seconds,
    format_table,
    print_error,
    print_fields,
    strip_control_characters,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "-"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (98362432, "98.4 MB"),
        (999_999, "1.0 MB"),
        (5_310_000_000, "5.3 GB"),
        (123_400_000_000, "123 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_format_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "-"), (12, "12"), (134515008, "135M"), (999_999_999, "1.0B"), (7_240_000_000, "7.2B")],
)
def test_format_count(count: int, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (59.6, "1 min"),
        (42, "42 s"),
        (866.9, "14 min 27 s"),
        (3600, "1 h"),
        (11100, "3 h 5 min"),
        (187200, "2 d 4 h"),
    ],
)
def test_format_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_table_columns_are_aligned() -> None:
    assert format_table(("NAME", "SIZE"), [["a", "1 B"], ["longer", "10 kB"]], right="SIZE") == (
        "NAME     SIZE\na         1 B\nlonger  10 kB"
    )


def test_table_truncates_its_first_column() -> None:
    table = format_table(("NAME", "X"), [["n" * 50, "y" * 20]], columns=40)
    assert table.splitlines()[1] == "n" * 17 + "…  " + "y" * 20
    assert "n" * 50 in format_table(("NAME", "X"), [["n" * 50, "y" * 20]])


def test_control_characters_are_stripped(capsys: pytest.CaptureFixture[str]) -> None:
    assert strip_control_characters("a\x1b[31mb\x9bc\td\n") == "a[31mbcd\n"
    assert "\x1b" not in format_table(("A",), [["\x1b]0;x\x07"]])
    print_error("bad \x1b[2Jname", "do\x07 this")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "Error: bad [2Jname\ndo this\n"


def test_fields_wrap_with_a_hanging_indent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "ingle.daemon.terminal.terminal_output.table_columns"
    monkeypatch.setattr(columns, lambda: 80)
    facts = [("reason", "word " * 30), ("path", "/a b" * 30), ("name", "x\x1b[2J")]
    print_fields(facts)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("reason        word word")
    assert lines[1].startswith("              word word")
    assert max(len(line) for line in lines[:-2]) <= 80
    assert lines[-2:] == [f"path          {'/a b' * 30}", "name          x[2J"]
    monkeypatch.setattr(columns, lambda: 0)
    print_fields(facts[:1])
    assert len(capsys.readouterr().out.splitlines()) == 1
