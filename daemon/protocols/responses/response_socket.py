"""The Responses API over a WebSocket: one connection for many responses, one after the other.

https://developers.openai.com/api/docs/guides/websocket-mode
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import MutableMapping
from functools import partial
from typing import Any, Literal

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from ingle.backends.base.events import Event

from ...access.permission import admitted_request
from ...error_status import describe
from ...errors import OpenAIErrorDetail, UnsupportedField
from ...http.bodies import cancel_all, parse_served
from ...http.http_protocol import CONNECTION
from ...http.off_loop import off_loop
from ...stores.response_store import ResponseStore, StoredResponse
from ...transport.peer import PeerConnection
from ..ingle_options import origin_of
from ..job_runner import JobRunner
from .requests import ResponseDraft, draft_response
from .response_answer import ResponseAnswer
from .response_state import BackgroundRuns, ConversationState, stored_response
from .types import Response, ResponsesRequest

STALL_SECONDS = 30.0
"""Seconds that a client may read nothing although an event is waiting."""
LOCAL_BYTES = 64 * 2**20
"""Memory of the responses that only one connection knows."""
WAITING_BYTES = 16 * 2**20
"""Memory of events that wait for an answer, from which on no more are read."""
_EVENT_BYTES = 1024
"""Memory of an event beside its text."""


class CreateEvent(ResponsesRequest, kw_only=True):
    """The client's event: the body of `POST /v1/responses`, whose `stream` is implied."""

    type: Literal["response.create"]
    generate: bool | None = None


class CreateFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The event for a request that failed before its response began."""

    type: Literal["error"] = "error"
    status: int
    error: OpenAIErrorDetail


class LocalState(ConversationState):
    """Stored responses, and in front of them those of this connection that are not stored."""

    def __init__(self, store: ResponseStore, runs: BackgroundRuns) -> None:
        super().__init__(store, runs)
        self._local: OrderedDict[str, StoredResponse] = OrderedDict()
        self._used = 0

    async def stored(self, response_id: str) -> StoredResponse:
        """See `ConversationState.stored`."""
        found = self._local.get(response_id)
        return found if found is not None else await super().stored(response_id)

    def keep(self, draft: ResponseDraft, response: Response) -> None:
        """See `ConversationState.keep`; one that is not stored is kept until the connection ends.

        The oldest of these make room.
        """
        if draft.keeps:
            super().keep(draft, response)
            return
        stored = stored_response(response, draft.input)
        self._local[response.id] = stored
        self._used += _size(stored)
        while self._used > LOCAL_BYTES and len(self._local) > 1:
            self.forget(next(iter(self._local)))

    def forget(self, response_id: str) -> None:
        """Forget a response; does nothing if it is not kept here."""
        stored = self._local.pop(response_id, None)
        if stored is not None:
            self._used -= _size(stored)


def _size(stored: StoredResponse) -> int:
    return len(bytes(stored.response)) + sum(len(bytes(item)) for item in stored.input)


def _text(message: MutableMapping[str, Any]) -> bytes | None:
    """Return the text of a client's message, None if it has left."""
    if message["type"] == "websocket.disconnect":
        return None
    text = message.get("text")
    return text.encode() if text is not None else message["bytes"]


def _move(frames: list[bytes], waiting: asyncio.Queue[bytes | None]) -> None:
    for frame in frames:
        waiting.put_nowait(frame)
    frames.clear()


class ResponseSocket:
    """One connection; events of the client wait while a response is generated."""

    def __init__(
        self, socket: WebSocket, runner: JobRunner, store: ResponseStore, runs: BackgroundRuns
    ) -> None:
        self._socket = socket
        self._runner = runner
        self._store = store
        self._state = LocalState(store, runs)
        self._texts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._has_room = asyncio.Event()

    async def serve(self) -> None:
        """Answer until the client leaves, which cancels a running response."""
        await self._socket.accept()
        receiving = asyncio.create_task(self._receive())
        try:
            while (text := await self._texts.get()) is not None:
                self._count(-len(text) - _EVENT_BYTES)
                answering = asyncio.create_task(self._answer(text))
                await asyncio.wait({answering, receiving}, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    answering.cancel()
                    # It may end with the failure to send its last event.
                    await asyncio.gather(answering, return_exceptions=True)
                    return
                await answering
        except (WebSocketDisconnect, TimeoutError):
            return
        finally:
            await cancel_all([receiving])

    async def _receive(self) -> None:
        """Read events ahead until the client leaves, which only reading shows."""
        try:
            while (text := _text(await self._socket.receive())) is not None:
                self._texts.put_nowait(text)
                self._count(len(text) + _EVENT_BYTES)
                await self._has_room.wait()
        finally:
            self._texts.put_nowait(None)

    def _count(self, added: int) -> None:
        self._waiting += added
        if self._waiting > WAITING_BYTES:
            self._has_room.clear()
        else:
            self._has_room.set()

    async def _answer(self, text: bytes) -> None:
        body: CreateEvent | None = None
        try:
            body, ignored = await off_loop(len(text), partial(parse_served, text, CreateEvent))
            self._socket.app.state.ignored_fields.update(field.label for field in ignored)
            with admitted_request(self._socket.scope):
                await self._respond(await self._draft(body))
        except (WebSocketDisconnect, TimeoutError):
            raise
        except Exception as error:
            if body is not None:
                self._forget_previous(body)
            problem = describe(error)
            await self._send(
                msgspec.json.encode(
                    CreateFailed(status=problem.status, error=problem.openai().error)
                )
            )

    async def _draft(self, body: CreateEvent) -> ResponseDraft:
        if body.background:
            raise UnsupportedField(
                "A WebSocket has no responses in the background.",
                hint="Use POST /v1/responses, or leave 'background' out.",
                param="background",
            )
        if body.generate is False:
            raise UnsupportedField(
                "'generate': false is not supported.", hint="Leave it out.", param="generate"
            )
        names = (body.user, body.safety_identifier, body.prompt_cache_key)
        return await draft_response(body, origin_of(self._socket, body.ingle, *names), self._state)

    async def _respond(self, draft: ResponseDraft) -> None:
        """Generate a response and send its events; the last one after the response is stored.

        Raises what prevents its beginning.
        """
        if draft.keeps or draft.conversation_id is not None:
            await self._store.check_room()
        keep = partial(self._state.keep, draft)
        answer = ResponseAnswer(draft, keep, frame=lambda data, event: data)
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

        def take(prompt: int, events: list[Event]) -> None:
            answer.take(prompt, events)
            last = answer.frames.pop() if answer.is_over else None
            _move(answer.frames, waiting)
            if last is not None:
                answer.frames.append(last)

        sending = asyncio.create_task(self._send_all(waiting))
        try:
            async with self._runner.lease(draft.job) as (lease, _):
                answer.use(lease)
                await self._runner.run(draft.job, lease, take)
            await self._state.flush(draft, answer.response())
        except Exception as error:
            if not answer.is_begun:
                raise
            answer.fail(error)
            self._forget_previous(draft.body)
        finally:
            _move(answer.frames, waiting)
            waiting.put_nowait(None)
            await sending

    def _forget_previous(self, body: ResponsesRequest) -> None:
        """A failed continuation cannot be tried again from state that only this connection has."""
        if body.previous_response_id is not None:
            self._state.forget(body.previous_response_id)

    async def _send_all(self, waiting: asyncio.Queue[bytes | None]) -> None:
        while (frame := await waiting.get()) is not None:
            await self._send(frame)

    async def _send(self, event: bytes) -> None:
        """Send one event; a client that has stopped reading is disconnected."""
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await self._socket.send_text(event.decode())
        except TimeoutError:
            connection: PeerConnection = self._socket.scope["state"][CONNECTION]
            connection.abort()
            raise
