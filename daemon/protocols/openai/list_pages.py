"""Pages of lists, as OpenAI's API cuts them, and the metadata that its objects have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from ...errors import InvalidBody
from ...http.field_policy import FieldPolicy

MetadataKey = Annotated[str, Meta(max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)]

Item = TypeVar("Item")


class MetadataUpdate(msgspec.Struct):
    """A body that replaces the metadata of an object; null removes it."""

    field_policy: ClassVar[FieldPolicy] = FieldPolicy()

    metadata: Metadata | None


class Page(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """A page of a list."""

    object: Literal["list"] = "list"
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


def page_of(
    items: Sequence[Item],
    id_of: Callable[[Item], str],
    query: Mapping[str, str],
    *,
    most: int,
    usual: int,
) -> Page[Item]:
    """The page that `limit`, `after` and `order` ask for of items that come newest first.

    Raises `InvalidBody`.
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
        start = next((i for i, item in enumerate(ordered, 1) if id_of(item) == after), 0)
        if not start:
            raise InvalidBody(
                f"'after' names nothing in this list: {after[:100]!r}.", param="after"
            )
    page = ordered[start : start + int(text)]
    return Page(
        data=page,
        first_id=id_of(page[0]) if page else None,
        last_id=id_of(page[-1]) if page else None,
        has_more=start + len(page) < len(ordered),
    )
