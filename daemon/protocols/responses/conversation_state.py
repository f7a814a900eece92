"""Stored responses: the conversations they form, and their items."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from ...errors import InvalidBody, NotFound
from ...stores.response_store import ResponseStore, StoredResponse
from .items import HostedCall, HostedOutput, Item, ItemIds, id_of
from .response_types import Response, ResponseError, Status

if TYPE_CHECKING:
    from .background_runs import BackgroundRuns

LOST = ResponseError("server_error", "The daemon was restarted while this response was being made.")


class ResponseSummary(msgspec.Struct, frozen=True):
    """The fields of a stored response that the next request needs."""

    status: Status
    background: bool
    output: list[msgspec.Raw]
    previous_response_id: str | None = None
    error: ResponseError | None = None


_summary_decoder = msgspec.json.Decoder(ResponseSummary)


def stored_response(response: Response, items: list[Item]) -> StoredResponse:
    """Return a response and the items of its request as the store keeps them."""
    return StoredResponse(
        response=msgspec.Raw(msgspec.json.encode(response)),
        input=[
            item.raw
            if isinstance(item, HostedCall | HostedOutput)
            else msgspec.Raw(msgspec.json.encode(item))
            for item in items
        ],
    )


def summarize(stored: StoredResponse) -> ResponseSummary:
    """Return the summary of a stored response."""
    return _summary_decoder.decode(bytes(stored.response))


class ConversationState:
    """Finds the stored responses and items that requests refer to."""

    def __init__(self, store: ResponseStore, runs: BackgroundRuns) -> None:
        self._store = store
        self._runs = runs

    async def stored(self, response_id: str) -> StoredResponse:
        """A response; one whose daemon was restarted under it has failed. Raises `NotFound`."""
        found = await self._store.get(response_id)
        if found is None:
            raise NotFound(
                f"Response with id {response_id[:80]!r} not found.",
                hint="Responses with 'store': false, and private ones, are not kept.",
                code="response_not_found",
            )
        summary = summarize(found)
        if summary.status in ("queued", "in_progress") and response_id not in self._runs.runs:
            found = _failed(found)
            self._store.put(response_id, found)
        return found

    async def conversation(self, response_id: str) -> list[msgspec.Raw]:
        """All items up to the end of this response; raises `InvalidBody`."""
        turns: list[list[msgspec.Raw]] = []
        wanted: str | None = response_id
        seen: set[str] = set()
        while wanted is not None and wanted not in seen:
            seen.add(wanted)
            stored, summary = await self._turn(wanted, is_first=wanted == response_id)
            turns.append([*stored.input, *summary.output])
            wanted = summary.previous_response_id
        return [item for turn in reversed(turns) for item in turn]

    async def item(self, item_id: str) -> list[msgspec.Raw]:
        """One stored item; raises `NotFound`."""
        response_id = ItemIds.response_of(item_id)
        stored = await self._store.get(response_id) if response_id is not None else None
        if stored is not None:
            # What clients refer to is mostly what a model said; other streams get their turns.
            await asyncio.sleep(0)
            for raw in (*summarize(stored).output, *stored.input):
                if id_of(raw) == item_id:
                    return [raw]
        raise NotFound(
            f"Item with id {item_id[:80]!r} not found.",
            hint="Items are kept with their responses; send it whole instead.",
            code="item_not_found",
            param="input",
        )

    async def _turn(
        self, response_id: str, *, is_first: bool
    ) -> tuple[StoredResponse, ResponseSummary]:
        try:
            stored = await self.stored(response_id)
        except NotFound as error:
            which = "Previous response" if is_first else "An earlier response of the conversation"
            raise InvalidBody(
                f"{which} with id {response_id[:80]!r} not found.",
                hint="Send the conversation as 'input' instead.",
                code="previous_response_not_found",
                param="previous_response_id",
            ) from error
        summary = summarize(stored)
        if summary.status in ("queued", "in_progress"):
            raise InvalidBody(
                "The previous response is still being made.",
                hint="Wait until it is complete, or cancel it.",
                param="previous_response_id",
            )
        return stored, summary


def _failed(stored: StoredResponse) -> StoredResponse:
    fields = msgspec.json.decode(bytes(stored.response), type=dict[str, msgspec.Raw])
    fields["status"] = msgspec.Raw(b'"failed"')
    fields["error"] = msgspec.Raw(msgspec.json.encode(LOST))
    response = msgspec.Raw(msgspec.json.encode(fields))
    return msgspec.structs.replace(stored, response=response)
