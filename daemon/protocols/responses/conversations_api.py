"""OpenAI's conversations: stored items that responses read and extend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, structs
from starlette.requests import Request

from ...errors import InvalidBody
from ...http.bodies import OPENAI
from ...http.field_policy import FieldPolicy
from ...http.route_access import INFERENCE
from ...http.route_spec import Parameter, route
from ..ingle_options import refuse_private
from ..openai.list_pages import Metadata, MetadataUpdate, Page, page_of
from .conversation_store import StoredConversation, item_not_found
from .item_reader import read_item, reference_of
from .items import ItemIds, id_of, stored_item
from .response_state import ConversationState

ITEMS_AT_ONCE = 256
"""Items that one request may add."""

ITEM_PAGES = (
    Parameter("limit", "query", int, "1 to 100; 20 if left out."),
    Parameter("order", "query", str, "asc or desc; desc if left out."),
    Parameter("after", "query", str, "The item before the page."),
)


class ConversationRequest(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/conversations`; items are as in the input of a response."""

    field_policy: ClassVar[FieldPolicy] = FieldPolicy()

    items: Annotated[list[msgspec.Raw], Meta(max_length=ITEMS_AT_ONCE)] | None = None
    metadata: Metadata | None = None


class NewItems(msgspec.Struct, kw_only=True):
    """The body of `POST /v1/conversations/{id}/items`."""

    field_policy: ClassVar[FieldPolicy] = FieldPolicy()

    items: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=ITEMS_AT_ONCE)]


class ConversationObject(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, without its items."""

    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: dict[str, str]


class DeletedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted conversation."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: Literal[True] = True


_route = partial(route, access=INFERENCE, error_format=OPENAI)


class ConversationsApi:
    """The routes under `/v1/conversations`."""

    def __init__(self, state: ConversationState) -> None:
        self._state = state
        self._conversations = state.conversations

    @_route("POST", "/v1/conversations", errors=(404, 408, 413, 507))
    async def create(self, request: Request, body: ConversationRequest) -> ConversationObject:
        """Create a conversation."""
        refuse_private(request)
        raws = await self._resolved(body.items or [])
        conversation = _extended(raws, self._conversations.new(body.metadata))
        await self._conversations.add(conversation)
        return _described(conversation)

    @_route("GET", "/v1/conversations/{id}", errors=(404,))
    async def get(self, request: Request) -> ConversationObject:
        """One conversation."""
        return _described(await self._find(request))

    @_route("POST", "/v1/conversations/{id}", errors=(404, 408, 413, 507))
    async def update(self, request: Request, body: MetadataUpdate) -> ConversationObject:
        """Replace the metadata of a conversation."""
        refuse_private(request)
        changed = await self._conversations.change(
            request.path_params["id"],
            lambda stored: structs.replace(stored, metadata=body.metadata or {}),
        )
        return _described(changed)

    @_route("DELETE", "/v1/conversations/{id}", errors=(404,))
    async def delete(self, request: Request) -> DeletedConversation:
        """Forget a conversation; responses that belong to it stay."""
        conversation_id: str = request.path_params["id"]
        await self._conversations.delete(conversation_id)
        return DeletedConversation(id=conversation_id)

    @_route("POST", "/v1/conversations/{id}/items", errors=(404, 408, 413, 507))
    async def add_items(self, request: Request, body: NewItems) -> Page[Any]:
        """Add items at the end of a conversation."""
        refuse_private(request)
        raws = await self._resolved(body.items)
        changed = await self._conversations.change(
            request.path_params["id"], partial(_extended, raws)
        )
        added = changed.items[-len(raws) :]
        return Page(data=added, first_id=id_of(added[0]), last_id=id_of(added[-1]), has_more=False)

    @_route("GET", "/v1/conversations/{id}/items", parameters=ITEM_PAGES, errors=(404,))
    async def list_items(self, request: Request) -> Page[Any]:
        """The items of a conversation."""
        return item_page((await self._find(request)).items, request.query_params)

    @_route("GET", "/v1/conversations/{id}/items/{item_id}", errors=(404,))
    async def get_item(self, request: Request) -> Any:
        """One item of a conversation."""
        item_id: str = request.path_params["item_id"]
        for item in (await self._find(request)).items:
            if id_of(item) == item_id:
                return item
        raise item_not_found(item_id)

    @_route("DELETE", "/v1/conversations/{id}/items/{item_id}", errors=(404, 507))
    async def delete_item(self, request: Request) -> ConversationObject:
        """Remove an item from a conversation."""
        item_id: str = request.path_params["item_id"]
        changed = await self._conversations.change(
            request.path_params["id"], lambda stored: stored.without(item_id)
        )
        return _described(changed)

    async def _find(self, request: Request) -> StoredConversation:
        return await self._conversations.get(request.path_params["id"])

    async def _resolved(self, raws: list[msgspec.Raw]) -> list[msgspec.Raw]:
        """The items, each reference replaced by the item itself; raises `NotFound`."""
        resolved: list[msgspec.Raw] = []
        for number, raw in enumerate(raws):
            wanted = reference_of(raw, f"items[{number}]")
            resolved += [raw] if wanted is None else await self._state.item(wanted)
        return resolved


def item_page(items: Sequence[msgspec.Raw], query: Mapping[str, str]) -> Page[Any]:
    """The page that the query asks for, of items that come oldest first; raises `InvalidBody`."""
    page = page_of(items[::-1], id_of, query, most=100, usual=20)
    # OpenAI's clients expect text here also for an empty page.
    return structs.replace(page, first_id=page.first_id or "", last_id=page.last_id or "")


def _extended(raws: list[msgspec.Raw], conversation: StoredConversation) -> StoredConversation:
    """The conversation with the items, as they are stored; raises `InvalidBody`."""
    ids = ItemIds(conversation.id, conversation.used)
    items: list[msgspec.Raw] = []
    for number, raw in enumerate(raws):
        place = f"items[{number}]"
        if (item := read_item(raw, place, ids)) is None:
            raise InvalidBody(
                f"'{place}' is of a type that no model here could use.",
                hint="Leave it out.",
                param=place,
            )
        items.append(stored_item(item))
    return conversation.extended(items, ids.used)


def _described(conversation: StoredConversation) -> ConversationObject:
    return ConversationObject(
        id=conversation.id, created_at=conversation.created_at, metadata=conversation.metadata
    )
