"""Responses that run in the background, and the stored responses of conversations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from ingle.backends.base.events import Event

from ...errors import InvalidBody, NotFound, ShuttingDown
from ...generations.run_registry import GenerationLog, RunRegistry
from ...stores.response_store import ResponseStore, StoredResponse
from ..job_runner import JobRunner
from .conversation_store import ConversationStore
from .items import Item, ItemIds, id_of, stored_item
from .requests import ResponseDraft
from .response_answer import ResponseAnswer
from .types import Response, ResponseError, Status


class BackgroundRun:
    """One response: its task, and the log of its events."""

    def __init__(
        self,
        draft: ResponseDraft,
        answer: ResponseAnswer,
        runner: JobRunner,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self.id = draft.job.id
        self.answer = answer
        self.log = GenerationLog()
        self.ended_at: float | None = None
        self._cancelled = False
        self._flush = flush
        answer.create()
        self._publish()
        self.task = asyncio.create_task(self._run(draft, runner))

    @property
    def size(self) -> int:
        """The memory of its log in bytes."""
        return self.log.size

    async def response(self) -> Response:
        """Return the response as it is now; in its final state only when that is on disk."""
        if self.answer.is_over:
            await asyncio.wait({self.task})
        return self.answer.response()

    async def cancel(self) -> None:
        """Stop it between two tokens; does nothing if it has ended."""
        if not self.task.done():
            self._cancelled = True
            self.task.cancel()
            await asyncio.wait({self.task})
            # A task that was cancelled before its first step never saw it.
            self.answer.cancel()
            self._publish()

    async def _run(self, draft: ResponseDraft, runner: JobRunner) -> None:
        try:
            async with runner.lease(draft.job) as (lease, _):
                self.answer.use(lease)
                await runner.run(draft.job, lease, self._take)
            await self._flush()
            self._publish()
        except asyncio.CancelledError:
            if not self._cancelled:
                self._fail(
                    ShuttingDown(
                        "The daemon was stopped before the response was complete.",
                        hint="Ask again.",
                    )
                )
                raise
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.answer.fail(error)
        self._publish()

    def _take(self, prompt: int, events: list[Event]) -> None:
        self.answer.take(prompt, events)
        self._publish(holds_end=True)

    def _publish(self, *, holds_end: bool = False) -> None:
        """Add the frames to the log; the final one only after the response is on disk."""
        frames = self.answer.frames
        held = frames[-1:] if holds_end and self.answer.is_over else []
        for frame in frames[: len(frames) - len(held)]:
            self.log.append("", frame)
        frames[:] = held
        if held:
            return
        if self.answer.is_over and self.ended_at is None:
            self.ended_at = time.monotonic()
            self.log.pack()


BackgroundRuns = RunRegistry[BackgroundRun]


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
        input=[stored_item(item) for item in items],
    )


def summarize(stored: StoredResponse) -> ResponseSummary:
    """Return the summary of a stored response."""
    return _summary_decoder.decode(bytes(stored.response))


class ConversationState:
    """Finds the stored responses and items that requests refer to."""

    def __init__(self, store: ResponseStore, runs: BackgroundRuns) -> None:
        self._store = store
        self._runs = runs
        self.conversations = ConversationStore(store)

    def keep(self, draft: ResponseDraft, response: Response) -> None:
        """Store a response in its final state; on disk when `flush` returns."""
        if draft.keeps:
            self._store.put(response.id, stored_response(response, draft.input))

    async def flush(self, draft: ResponseDraft, response: Response) -> None:
        """Wait until the response, and its conversation with it, is on disk.

        The next request can then refer to it. Raises `NotFound` if the conversation was deleted,
        and what `ResponseStore.flush` raises.
        """
        if draft.keeps:
            await self._store.flush(response.id)
        if draft.conversation_id is not None and response.status in ("completed", "incomplete"):
            items = [stored_item(item) for item in (*draft.input, *response.output)]
            await self.conversations.change(
                draft.conversation_id, lambda stored: stored.extended(items)
            )

    async def stored(self, response_id: str) -> StoredResponse:
        """Return a response; one that a restart interrupted has failed. Raises `NotFound`."""
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
        for raw in await self._items_beside(item_id):
            if id_of(raw) == item_id:
                return [raw]
        raise NotFound(
            f"Item with id {item_id[:80]!r} not found.",
            hint="Items are kept with their responses; send it whole instead.",
            code="item_not_found",
            param="input",
        )

    async def _items_beside(self, item_id: str) -> list[msgspec.Raw]:
        """The items of the response, or else the conversation, whose id an item's id contains."""
        if (owner := ItemIds.owner_of(item_id)) is None:
            return []
        await asyncio.sleep(0)
        if (stored := await self._store.get(f"resp_{owner}")) is not None:
            # Most references are to output items, so they are searched first.
            return [*summarize(stored).output, *stored.input]
        try:
            return (await self.conversations.get(f"conv_{owner}")).items
        except NotFound:
            return []

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
