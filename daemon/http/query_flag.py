"""A truth value in the query of an address."""

from __future__ import annotations

from starlette.requests import Request

from ..errors import InvalidBody


def query_flag(request: Request, name: str) -> bool:
    """Whether it says `true`; raises `InvalidBody` for what is neither true nor false."""
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise InvalidBody(f"'{name}' is neither true nor false.", param=name)
    return text in ("true", "1")
