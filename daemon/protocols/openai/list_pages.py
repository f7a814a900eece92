"""Lists in pages, as OpenAI cuts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from ...errors import InvalidBody


class Named(Protocol):
    """What a list is made of."""

    @property
    def id(self) -> str:
        """By which a page begins behind it."""
        ...


Item = TypeVar("Item", bound=Named)


def page_of(
    items: Sequence[Item], query: Mapping[str, str], *, most: int, usual: int
) -> tuple[list[Item], bool]:
    """The page that `limit`, `after` and `order` ask for, and whether there is more behind it.

    The items come the newest first. Raises `InvalidBody`.
    """
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidBody("'order' must be asc or desc.", param="order")
    ordered = list(items) if order == "desc" else list(reversed(items))
    text = query.get("limit", str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 7 and 1 <= int(text) <= most):
        raise InvalidBody(f"'limit' must be from 1 to {most}.", param="limit")
    start = 0
    if after := query.get("after"):
        places = [place for place, item in enumerate(ordered) if item.id == after]
        if not places:
            raise InvalidBody(
                f"'after' names nothing in this list: {after[:100]!r}.", param="after"
            )
        start = places[0] + 1
    page = ordered[start : start + int(text)]
    return page, start + len(page) < len(ordered)
