"""Values that the requests of several protocols have, and their checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ..errors import InvalidBody

LARGEST_TOKEN_ID = 2**31 - 1
_MOST_TOKENS = 2**31 - 1

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
_TEMPLATE_EFFORTS = {"none": None, "minimal": "low", "xhigh": "high", "max": "high"}


def template_effort(effort: str | None) -> str | None:
    """The closest of the three words that templates know: low, medium, high."""
    return effort if effort is None else _TEMPLATE_EFFORTS.get(effort, effort)


def token_limit(*wanted: float | None) -> int | None:
    """The first given number of tokens, within the bounds of the engine; None for no limit."""
    given = next((number for number in wanted if number is not None), -1)
    return None if given < 0 else int(min(given, _MOST_TOKENS))


def check_token_ids(tokens: Iterable[int], param: str) -> None:
    """Raise `InvalidBody` if one of the tokens of the field `param` is no token id."""
    if not all(0 <= token <= LARGEST_TOKEN_ID for token in tokens):
        raise InvalidBody(f"'{param}' holds something that is no token id.", param=param)
