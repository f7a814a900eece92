"""Anthropic's routes: messages, and the tokens they would take."""

from __future__ import annotations

import secrets
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from ...errors import AnthropicError
from ...http.bodies import ANTHROPIC, JSONResponse, read_json, run_until_disconnect, translate
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import StreamStyle
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, RequestOrigin, origin_of
from ..job import Job
from ..job_runner import JobRunner
from .answers import PING, MessageFrames, message
from .requests import messages_job, prompt_request
from .types import (
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    MessageDelta,
    MessageObject,
    MessagesRequest,
    MessageStart,
    MessageStop,
    PingEvent,
    PromptRequest,
    TokenCount,
)

EVENTS = {
    "message_start": MessageStart,
    "content_block_start": ContentBlockStart,
    "content_block_delta": ContentBlockDelta,
    "content_block_stop": ContentBlockStop,
    "message_delta": MessageDelta,
    "message_stop": MessageStop,
    "ping": PingEvent,
    "error": AnthropicError,
}


_route = partial(route, "POST", access=INFERENCE, error_format=ANTHROPIC, errors=GENERATION_ERRORS)


class MessagesApi:
    """The routes under `/v1/messages`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._runner = JobRunner(services)

    @_route(
        "/v1/messages",
        request=MessagesRequest,
        response=MessageObject,
        stream=StreamSpec(dict(EVENTS), only_if="`stream` is true"),
        parameters=(PRIVATE_HEADER,),
    )
    async def messages(self, request: Request) -> Response:
        """Answer a conversation, as Anthropic's API does."""
        body = await read_json(request, MessagesRequest)
        job = await translate(request, partial(messages_job, body, _origin(request, body)))
        shows_reasoning = body.thinking is None or body.thinking.display != "omitted"
        if body.stream:
            frames = partial(MessageFrames, shows_reasoning=shows_reasoning)
            return self._runner.stream(job, frames, _style())
        finish = partial(message, shows_reasoning=shows_reasoning)
        return _with_id(await self._runner.whole(request, job, finish))

    @_route("/v1/messages/count_tokens", request=PromptRequest, response=TokenCount)
    async def count_tokens(self, request: Request) -> Response:
        """Count the tokens of a conversation without answering it."""
        body = await read_json(request, PromptRequest)
        prompt = await translate(request, partial(prompt_request, body))
        job = Job(model=body.model, request=prompt)
        count = await run_until_disconnect(request.receive, self._runner.count_tokens(job))
        return _with_id(JSONResponse(TokenCount(count)))


def _style() -> StreamStyle:
    return StreamStyle(
        on_error=ANTHROPIC.frame,
        comment=PING,
        loading=lambda _: PING,
        headers={"request-id": _request_id()},
    )


def _with_id(response: Response) -> Response:
    response.headers["request-id"] = _request_id()
    return response


def _request_id() -> str:
    return f"req_{secrets.token_hex(12)}"


def _origin(request: Request, body: PromptRequest) -> RequestOrigin:
    user = body.metadata.user_id if body.metadata is not None else None
    return origin_of(request, body.ingle, user)
