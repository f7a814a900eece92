"""Formatting of sizes, durations, token counts, speeds, percentages and bars."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ingle.tui.text import number_format


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (98362432, "98 MB"), (1_500_000_000, "1.5 GB"), (5e12, "5.0 TB")],
)
def test_sizes(count: float, text: str) -> None:
    assert number_format.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.21, "0.21 s"), (2.04, "2.0 s"), (42.4, "42 s"), (61, "1 min 01 s"), (3725, "1 h 02 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert number_format.duration(seconds) == text


def test_tokens_and_speed() -> None:
    assert number_format.tokens(16384) == "16 384"
    assert number_format.speed(61.4) == "61 tok/s"
    assert number_format.speed(3.14) == "3.1 tok/s"


def test_percentages_are_formatted_in_one_place() -> None:
    assert [number_format.percent(part) for part in (0, 0.126, 1)] == ["0 %", "13 %", "100 %"]
    written = re.compile(r"\d%\}|\} ?%[^(]")
    others = [
        f"{path.name}: {line.strip()}"
        for path in Path(number_format.__file__).parents[1].rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if written.search(line) and path.name != "number_format.py"
    ]
    assert others == []


@pytest.mark.parametrize(
    ("fraction", "bar"), [(0, ("", "────")), (0.01, ("━", "───")), (1.5, ("━━━━", ""))]
)
def test_bars(fraction: float, bar: tuple[str, str]) -> None:
    assert number_format.bar(fraction, 4) == bar
