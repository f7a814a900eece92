"""Leaves most cases of a parameter to the nightly run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """All cases; of each `every`, all but the first are marked as slow."""
    return [case if number % every == 0 else _slow(case) for number, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):  # it is from `pytest.param` already
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow], id=case.id)
    values = cast("tuple[Any, ...]", case if isinstance(case, tuple) else (case,))
    return pytest.param(*values, marks=pytest.mark.slow)
