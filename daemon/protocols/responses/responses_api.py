"""The routes of OpenAI's Responses API."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response as HTTPResponse
from starlette.websockets import WebSocket

from ingle.backends.base.conversation import ChatMessage, Reasoning, ToolChoice

from ...errors import InvalidBody, RequestError
from ...http.bodies import OPENAI, JSONResponse, parse_served, query_flag, run_until_disconnect
from ...http.off_loop import off_loop
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, Parameter, StreamSpec, route
from ...http.sse_writer import EventStream, EventWriter, StreamStyle
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, RequestOrigin, origin_of
from ..job import AnswerBuilder, Job
from ..job_runner import JobApi
from ..openai.list_pages import Page
from .conversations_api import ITEM_PAGES, item_page
from .item_reader import seal
from .items import CompactionItem, MessageItem
from .requests import ResponseDraft, draft_response
from .response_answer import ResponseAnswer
from .response_socket import ResponseSocket
from .response_state import (
    BackgroundRun,
    BackgroundRuns,
    ConversationState,
    stored_response,
    summarize,
)
from .stream_events import STREAM_EVENTS, event_name
from .types import DeletedResponse, InputTokens, Response, ResponsesRequest, ResponseUsage

LONGEST_SUMMARY = 1024
"""Tokens."""

REQUEST = (
    "Write a summary of this conversation for somebody who will go on with it and sees nothing "
    "else of it. Keep what was asked for, what was decided and why, what was done and found out "
    "(with names, paths, numbers and commands as they are), and what is left to do. Write only "
    "the summary."
)


class CompactedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The user's messages, and behind them the summary; to be sent as `input` of the next turn."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[MessageItem | CompactionItem]
    usage: ResponseUsage


def summary_job(draft: ResponseDraft) -> Job:
    """The job that writes the summary; what is too old for the context is left out."""
    request = draft.job.request
    messages = [*(request.messages or []), ChatMessage("user", REQUEST)]
    asked = structs.replace(
        request,
        messages=messages,
        max_tokens=LONGEST_SUMMARY,
        tool_choice=ToolChoice("none"),
        reasoning=Reasoning(enabled=False),
        grammar=None,
    )
    return dataclasses.replace(draft.job, request=asked, fit=draft.fit)


def compacted(draft: ResponseDraft, collected: AnswerBuilder) -> CompactedResponse:
    """The conversation with the summary that was written."""
    summary = "".join(collected.answers[0].text).strip()
    asked = [
        item for item in draft.history if isinstance(item, MessageItem) and item.role == "user"
    ]
    item = CompactionItem(id=draft.ids.new("cmp"), encrypted_content=seal(summary))
    return CompactedResponse(
        id=draft.job.id,
        created_at=int(time.time()),
        output=[*asked, item],
        usage=ResponseUsage.of(collected.prompt_tokens, collected.cached_tokens, collected.total),
    )


EVENTS = StreamSpec(
    {event_name(event): event for event in STREAM_EVENTS}, only_if="`stream` is true"
)

EVENT_PARAMETERS = (
    Parameter("stream", "query", bool, "Events instead of the response."),
    Parameter("starting_after", "query", int, "The last event that is known."),
)

_route = partial(route, access=INFERENCE, error_format=OPENAI)


class ResponsesApi(JobApi):
    """The routes under `/v1/responses`."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._store = services.responses
        self._runs = BackgroundRuns()
        self.state = ConversationState(self._store, self._runs)

    @_route(
        "POST",
        "/v1/responses",
        other_paths=("/responses",),
        response=Response,
        stream=EVENTS,
        parameters=(PRIVATE_HEADER,),
        errors=GENERATION_ERRORS,
    )
    async def create(self, request: Request, body: ResponsesRequest) -> HTTPResponse:
        """Answer a conversation of items."""
        draft = await self._draft(request, body)
        if draft.keeps or draft.conversation_id is not None:
            await self._store.check_room()
        if body.background:
            run = await self._start(draft)
            return _follow(run, -1) if body.stream else JSONResponse(await run.response())
        if not body.stream:
            return JSONResponse(await run_until_disconnect(request.receive, self._collect(draft)))
        answer = ResponseAnswer(draft, partial(self.state.keep, draft))
        style = StreamStyle(on_error=answer.failure, loading=answer.loading)
        return self._runner.stream(draft.job, answer.use, style, self._flushing(draft, answer))

    @_route("GET", "/v1/responses", web_socket=True)
    async def connect(self, socket: WebSocket) -> None:
        """Answer conversations of items over a WebSocket, an event a message."""
        await ResponseSocket(socket, self._runner, self._store, self._runs).serve()

    async def answer(self, body: bytes, origin: RequestOrigin) -> Response:
        """The whole answer to the body of a response, in a batch.

        Whether the body asks for a stream or for the background does not matter, and it is stored
        only if the body says so. Raises what `describe` can report.
        """
        parsing = partial(parse_served, body, ResponsesRequest)
        asked, _ = await off_loop(len(body), parsing)
        # The answer is in the batch's file; thousands of them would push conversations out.
        asked = msgspec.structs.replace(asked, background=None, store=asked.store is True)
        return await self._collect(await self._drafted(asked, origin))

    @_route("POST", "/v1/responses/input_tokens", errors=GENERATION_ERRORS)
    async def count(self, request: Request, body: ResponsesRequest) -> InputTokens:
        """Count the tokens of an input without answering it."""
        body.background = None
        draft = await self._draft(request, body)
        found = await run_until_disconnect(request.receive, self._runner.count_tokens(draft.job))
        return InputTokens(input_tokens=found)

    @_route(
        "POST",
        "/v1/responses/compact",
        response=CompactedResponse,
        parameters=(PRIVATE_HEADER,),
        errors=GENERATION_ERRORS,
    )
    async def compact(self, request: Request, body: ResponsesRequest) -> HTTPResponse:
        """Compact a conversation: replace all but the user's messages by a summary."""
        if body.model is None:  # which OpenAI's API demands here too
            raise InvalidBody("'model' is missing.", param="model")
        body.background = None
        draft = await self._draft(request, body)
        return await self._runner.whole(request, summary_job(draft), partial(compacted, draft))

    @_route(
        "GET",
        "/v1/responses/{id}",
        response=Response,
        stream=EVENTS,
        parameters=EVENT_PARAMETERS,
        errors=(404,),
    )
    async def get(self, request: Request) -> HTTPResponse:
        """A stored response, or the events of one made in the background."""
        response_id: str = request.path_params["id"]
        run = self._runs.runs.get(response_id)
        if query_flag(request, "stream"):
            stored = await self.state.stored(response_id)
            if run is None:
                asked = summarize(stored)
                why = (
                    "is over for too long" if asked.background else "was not made in the background"
                )
                raise InvalidBody(
                    f"The events of this response are gone: it {why}.",
                    hint="Get it without 'stream'.",
                    param="stream",
                )
            return _follow(run, _starting_after(request))
        if run is not None:
            return JSONResponse(await run.response())
        return JSONResponse((await self.state.stored(response_id)).response)

    @_route("DELETE", "/v1/responses/{id}", errors=(404,))
    async def delete(self, request: Request) -> DeletedResponse:
        """Forget a response."""
        response_id: str = request.path_params["id"]
        await self.state.stored(response_id)
        if (run := self._runs.runs.get(response_id)) is not None:
            await run.cancel()
            self._runs.runs.pop(response_id, None)
        self._store.delete(response_id)
        await self._store.flush(response_id)
        return DeletedResponse(id=response_id)

    @_route("POST", "/v1/responses/{id}/cancel", response=Response, errors=(404,))
    async def cancel(self, request: Request) -> HTTPResponse:
        """Stop a response that is made in the background."""
        response_id: str = request.path_params["id"]
        stored = await self.state.stored(response_id)
        if not summarize(stored).background:
            raise InvalidBody(
                "Only a response that is made in the background can be cancelled.",
                hint="Close the connection of any other.",
            )
        if (run := self._runs.runs.get(response_id)) is None:
            return JSONResponse(stored.response)
        await run.cancel()
        return JSONResponse(await run.response())

    @_route("GET", "/v1/responses/{id}/input_items", parameters=ITEM_PAGES, errors=(404,))
    async def input_items(self, request: Request) -> Page[Any]:
        """The items of a response's own request."""
        stored = await self.state.stored(request.path_params["id"])
        return item_page(stored.input, request.query_params)

    async def _draft(self, request: Request, body: ResponsesRequest) -> ResponseDraft:
        names = (body.user, body.safety_identifier, body.prompt_cache_key)
        return await self._drafted(body, origin_of(request, body.ingle, *names))

    async def _drafted(self, body: ResponsesRequest, origin: RequestOrigin) -> ResponseDraft:
        # The answer names its model from its first event on.
        body.model = body.model or self._services.config.default_model
        return await draft_response(body, origin, self.state)

    async def _collect(self, draft: ResponseDraft) -> Response:
        answer = ResponseAnswer(draft, partial(self.state.keep, draft))
        async with self._runner.lease(draft.job, whole=True) as (lease, _):
            answer.use(lease)
            await self._runner.run(draft.job, lease, answer.take)
        await self.state.flush(draft, answer.response())
        return answer.response()

    async def _start(self, draft: ResponseDraft) -> BackgroundRun:
        # A model that does not exist is reported at once, not when the client reconnects.
        model = await asyncio.to_thread(self._services.resolve, draft.job.model)
        self._runs.check_room()
        answer = ResponseAnswer(draft, partial(self.state.keep, draft)).expect(model)
        run = BackgroundRun(draft, answer, self._runner, self._flushing(draft, answer))
        self._runs.add(run)
        self._store.put(run.id, stored_response(answer.response(), draft.input))
        try:
            await self._store.flush(run.id)
        except RequestError:
            await run.cancel()
            self._runs.runs.pop(run.id, None)
            raise
        return run

    def _flushing(
        self, draft: ResponseDraft, answer: ResponseAnswer
    ) -> Callable[[], Awaitable[None]]:
        return lambda: self.state.flush(draft, answer.response())


def _follow(run: BackgroundRun, after: int) -> HTTPResponse:
    async def produce(out: EventWriter) -> None:
        async for events in run.log.follow(after + 1):
            await out.send(b"".join(event.data for event in events))

    # The run reports its own failures; following it has none.
    return EventStream(produce, style=StreamStyle(on_error=lambda error: b""))


def _starting_after(request: Request) -> int:
    """The number of the last event that the client has; -1 for none."""
    text = request.query_params.get("starting_after")
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise InvalidBody("'starting_after' is not the number of an event.", param="starting_after")
    return int(text)
