"""`docs/security.md` names existing tests for every threat, and the page on models too."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = range(1, 36)


def rows() -> dict[int, str]:
    """The table row of each threat, by its number."""
    text = (ROOT / "docs/security.md").read_text()
    return {int(number): row for number, row in re.findall(r"(?m)^\| (\d+) \|(.*)$", text)}


def defined_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, functions) and node.name.startswith("test_")
    }


def test_every_threat_names_a_test() -> None:
    found = rows()
    assert sorted(found) == list(ROWS)
    assert [number for number, row in found.items() if "`tests/" not in row] == []


@pytest.mark.slow
@pytest.mark.parametrize(("page", "fewest"), [("security.md", len(ROWS)), ("model-safety.md", 7)])
def test_every_named_test_exists(page: str, fewest: int) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > fewest
    for name, test in named:
        path = ROOT / name
        assert path.is_file(), name
        found = defined_in(path)
        assert found, name
        assert not test or test in found, f"{name}::{test}"
    # A reference that the pattern does not match would not be checked.
    assert len(named) == text.count("`tests/")
