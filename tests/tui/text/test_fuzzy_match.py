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
def test_the_file_that_is_meant_comes_first(query: str, best: str) -> None:
    assert rank(query, FILES, 3)[0] == best


def test_a_capital_must_be_one() -> None:
    assert rank("Composer", FILES, 3) == []


def test_nothing_typed_shows_the_nearest() -> None:
    assert rank("", FILES, 2) == ["README.md", "daemon/app.py"]


def test_letters_that_mean_something_in_patterns_are_letters() -> None:
    assert rank(".*", ["a.b*", "abc"], 3) == ["a.b*"]
