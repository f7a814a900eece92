"""OpenAI's routes for stored chat completions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import msgspec
from msgspec import structs
from starlette.requests import Request

from ....http.bodies import OPENAI
from ....http.route_access import INFERENCE
from ....http.route_spec import Parameter, route
from ....services import Services
from ...ingle_options import refuse_private
from ..list_pages import MetadataUpdate, Page, page_of
from .completion_store import CompletionStore, StoredMessage
from .types import ChatCompletion

_FILTER = re.compile(r"metadata\[(.*)\]", re.DOTALL)
_PAGES = (
    Parameter("limit", "query", int, "1 to 100; 20 if left out."),
    Parameter("order", "query", str, "asc or desc; asc if left out."),
    Parameter("after", "query", str, "Only what follows the entry with this id."),
)


class DeletedCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted chat."""

    id: str
    object: Literal["chat.completion.deleted"] = "chat.completion.deleted"
    deleted: Literal[True] = True


_route = partial(route, access=INFERENCE, error_format=OPENAI)


class StoredCompletionsApi:
    """The routes for chats that were answered with `store: true`."""

    def __init__(self, services: Services) -> None:
        self._store = CompletionStore(services.responses)

    @_route(
        "GET",
        "/v1/chat/completions",
        parameters=(
            *_PAGES,
            Parameter("model", "query", str, "Only answers of this model."),
            Parameter("metadata[KEY]", "query", str, "Only those with this metadata."),
        ),
    )
    async def list(self, request: Request) -> Page[Any]:
        """The stored chats, the oldest first."""
        query = request.query_params
        wanted = _filters(query.items())
        heads = [
            head
            for head in await self._store.list()
            if query.get("model", head.model) == head.model
            and wanted.items() <= head.metadata.items()
        ]
        page = _page(heads, request)
        found = [(await self._store.get(head.id)).described() for head in page.data]
        return structs.replace(page, data=found)

    @_route("GET", "/v1/chat/completions/{id}", response=ChatCompletion, errors=(404,))
    async def get(self, request: Request) -> Any:
        """A stored chat."""
        return (await self._store.get(request.path_params["id"])).described()

    @_route("POST", "/v1/chat/completions/{id}", errors=(404, 408, 413, 507))
    async def update(self, request: Request, body: MetadataUpdate) -> Any:
        """Replace the metadata of a stored chat."""
        refuse_private(request)
        changed = await self._store.update(request.path_params["id"], body.metadata or {})
        return changed.described()

    @_route("DELETE", "/v1/chat/completions/{id}", errors=(404,))
    async def delete(self, request: Request) -> DeletedCompletion:
        """Forget a stored chat."""
        completion_id: str = request.path_params["id"]
        await self._store.delete(completion_id)
        return DeletedCompletion(id=completion_id)

    @_route("GET", "/v1/chat/completions/{id}/messages", parameters=_PAGES, errors=(404,))
    async def messages(self, request: Request) -> Page[StoredMessage]:
        """The messages of a stored chat's request."""
        stored = await self._store.get(request.path_params["id"])
        return _page(stored.messages[::-1], request)


def _page(newest_first: list[Any], request: Request) -> Page[Any]:
    query = {"order": "asc", **request.query_params}
    return page_of(newest_first, attrgetter("id"), query, most=100, usual=20)


def _filters(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The metadata that a query asks for."""
    found = ((_FILTER.fullmatch(name), value) for name, value in query)
    return {match[1]: value for match, value in found if match is not None}
