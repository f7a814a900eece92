"""Pages of a response's input items."""

from __future__ import annotations

import msgspec

from ...errors import InvalidBody
from .response_types import ItemList


class _Named(msgspec.Struct):
    id: str = ""


def page_of(
    items: list[msgspec.Raw], *, limit: int, newest_first: bool, after: str | None
) -> ItemList:
    """So many items behind `after`; raises `InvalidBody` where that is none of them."""
    ordered = items[::-1] if newest_first else items
    ids = [msgspec.json.decode(bytes(item), type=_Named).id for item in ordered]
    start = 0
    if after:
        if after not in ids:
            raise InvalidBody("'after' is no item of this response.", param="after")
        start = ids.index(after) + 1
    page = ids[start : start + limit]
    return ItemList(
        data=list(ordered[start : start + limit]),
        first_id=page[0] if page else "",
        last_id=page[-1] if page else "",
        has_more=start + limit < len(ids),
    )
