"""Fuzzy matching and ranking of file names."""

from __future__ import annotations

import pytest

from ingle.tui.text.fuzzy_match import rank

FILES = [
    "tui/widgets/composer.py",
    "tui/composing/chips.py",
    "daemon/app.py",
    "tests/tui/test_app.py",
    "README.md",
    "docs/capacity.md",
]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("composer", "tui/widgets/composer.py"),
        ("app", "daemon/app.py"),
        ("tapp", "tests/tui/test_app.py"),
        ("README", "README.md"),
        ("chips", "tui/composing/chips.py"),
        ("twc", "tui/widgets/composer.py"),
    ],
)
def test_best_match_is_ranked_first(query: str, best: str) -> None:
    assert rank(query, FILES, 3)[0] == best


def test_capital_letters_match_only_capitals() -> None:
    assert rank("Composer", FILES, 3) == []


def test_empty_query_ranks_the_shortest_paths_first() -> None:
    assert rank("", FILES, 2) == ["README.md", "daemon/app.py"]


def test_regex_characters_are_literal() -> None:
    assert rank(".*", ["a.b*", "abc"], 3) == ["a.b*"]
