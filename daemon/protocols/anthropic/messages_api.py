"""Anthropic's routes: messages and token counts."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

import msgspec
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    PromptAdvanced,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)

from ...errors import AnthropicError
from ...http.bodies import (
    ANTHROPIC,
    JSONResponse,
    encode_event,
    parse_served,
    run_until_disconnect,
    translate,
)
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import StreamStyle
from ..answer_values import PromptProgress
from ..ingle_options import PRIVATE_HEADER, RequestOrigin, origin_of
from ..job import AnswerBuilder, Job
from ..job_runner import JobApi
from .requests import messages_job, prompt_request
from .types import (
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJSONDelta,
    MessageDelta,
    MessageObject,
    MessagesRequest,
    MessageStart,
    MessageStop,
    MessageUsage,
    OutputBlock,
    PingEvent,
    PromptRequest,
    SignatureDelta,
    StopDelta,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingTokensDetails,
    TokenCount,
    ToolUseBlock,
)

_EMPTY = msgspec.Raw(b"{}")
PING = encode_event(msgspec.json.encode(PingEvent()), event="ping")


def message(collected: AnswerBuilder, *, shows_reasoning: bool = True) -> MessageObject:
    """The whole answer: reasoning, text, calls."""
    (answer,) = collected.answers
    content: list[OutputBlock] = []
    if answer.reasoning:
        reasoning = "".join(answer.reasoning) if shows_reasoning else ""
        content.append(ThinkingBlock(reasoning, signature(collected.job.id)))
    if text := "".join(answer.text):
        content.append(TextBlock(text))
    for call in answer.calls:
        arguments = msgspec.Raw(call.arguments.encode() or b"{}")
        content.append(ToolUseBlock(tool_use_id(call.id), call.name, arguments))
    reason, stop = stop_reason(collected)
    return envelope(collected, content, reason, stop)


def envelope(
    collected: AnswerBuilder,
    content: list[OutputBlock],
    reason: StopReason | None = None,
    stop: str | None = None,
) -> MessageObject:
    """A message with this content and the usage so far."""
    return MessageObject(
        id=collected.job.id,
        model=collected.model.name,
        content=content,
        stop_reason=reason,
        stop_sequence=stop,
        usage=usage(collected),
    )


def usage(collected: AnswerBuilder) -> MessageUsage:
    """The tokens; Anthropic counts those read from a cache apart from the others."""
    return MessageUsage(
        input_tokens=collected.prompt_tokens - collected.cached_tokens,
        cache_read_input_tokens=collected.cached_tokens,
        output_tokens=collected.completion_tokens,
        output_tokens_details=ThinkingTokensDetails(collected.total.reasoning_tokens),
        service_tier="standard",
    )


def stop_reason(collected: AnswerBuilder) -> tuple[StopReason, str | None]:
    """The reason why the answer ended, and the stop sequence that ended it."""
    (answer,) = collected.answers
    match answer.reason:
        case FinishReason.TOOL_CALLS:
            return "tool_use", None
        case FinishReason.LENGTH:
            used = collected.prompt_tokens + collected.completion_tokens
            asked = collected.job.request.max_tokens or 0
            is_full = used >= collected.info.context and collected.completion_tokens < asked
            return ("model_context_window_exceeded" if is_full else "max_tokens"), None
        case FinishReason.STOP | FinishReason.CANCELLED:
            stop = answer.finished.stop if answer.finished is not None else None
            return ("end_turn" if stop is None else "stop_sequence"), stop


def tool_use_id(call_id: str) -> str:
    """The id of a call in Anthropic's spelling."""
    return f"toolu_{call_id.removeprefix('call_')}"


def signature(message_id: str) -> str:
    """The signature that clients send back with reasoning; it is never checked."""
    return hashlib.sha256(message_id.encode()).hexdigest()


class MessageFrames:
    """Encodes one message: a block begins where the model changes to another kind of content."""

    def __init__(self, collected: AnswerBuilder, *, shows_reasoning: bool = True) -> None:
        self._collected = collected
        self._shows_reasoning = shows_reasoning
        self._encoder = msgspec.json.Encoder()
        self._open: Literal["text", "thinking", "tool_use"] | None = None
        self._index = -1
        self._head = b""

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """Return the frames of the events."""
        parts: list[bytes] = []
        for event in events:
            if type(event) is Delta:
                parts += self._text(event.text)
            elif type(event) is PromptAdvanced:
                ping = PingEvent(prompt_progress=PromptProgress.of(event))
                parts.append(encode_event(self._encoder.encode(ping), event="ping"))
            else:
                parts += map(self._frame, self._others(event))
        return b"".join(parts)

    def end(self) -> bytes:
        """The last block's end, why the message ended, and its end."""
        reason, stop = stop_reason(self._collected)
        delta = MessageDelta(StopDelta(reason, stop), usage(self._collected))
        return b"".join(map(self._frame, [*self._close(), delta, MessageStop()]))

    def _text(self, text: str) -> Iterator[bytes]:
        """Text arrives token by token: only the part that changes is encoded."""
        if not text:
            return
        if self._open != "text":
            yield from map(self._frame, self._begin("text", TextBlock("")))
            whole = self._frame(ContentBlockDelta(self._index, TextDelta("")))
            self._head = whole.removesuffix(b'""}}\n\n')
        yield b"%b%b}}\n\n" % (self._head, self._encoder.encode(text))

    def _others(self, event: Event) -> Iterator[msgspec.Struct]:
        match event:
            case Started():
                self._collected.count(0, event)
                yield MessageStart(envelope(self._collected, []))
            case ReasoningDelta():
                if self._open != "thinking":
                    yield from self._begin("thinking", ThinkingBlock("", ""))
                if self._shows_reasoning:
                    yield ContentBlockDelta(self._index, ThinkingDelta(event.text))
            case ToolCallStarted():
                block = ToolUseBlock(tool_use_id(event.call_id), event.name, _EMPTY)
                yield from self._begin("tool_use", block)
            case ToolCallDelta():
                yield ContentBlockDelta(self._index, InputJSONDelta(event.arguments))
            case Finished():
                self._collected.count(0, event)
                self._collected.answers[0].take(event)
            case Delta() | PromptAdvanced():
                return

    def _begin(
        self, kind: Literal["text", "thinking", "tool_use"], block: OutputBlock
    ) -> Iterator[msgspec.Struct]:
        yield from self._close()
        self._open = kind
        self._index += 1
        yield ContentBlockStart(self._index, block)

    def _close(self) -> Iterator[msgspec.Struct]:
        if self._open == "thinking":
            yield ContentBlockDelta(self._index, SignatureDelta(signature(self._collected.job.id)))
        if self._open is not None:
            yield ContentBlockStop(self._index)
        self._open = None

    def _frame(self, event: msgspec.Struct) -> bytes:
        name = event.__struct_config__.tag
        return encode_event(self._encoder.encode(event), event=str(name))


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


class MessagesApi(JobApi):
    """The routes under `/v1/messages`."""

    @_route(
        "/v1/messages",
        response=MessageObject,
        stream=StreamSpec(dict(EVENTS), only_if="`stream` is true"),
        parameters=(PRIVATE_HEADER,),
    )
    async def messages(self, request: Request, body: MessagesRequest) -> Response:
        """Answer a conversation, as Anthropic's API does."""
        job = await translate(request, partial(messages_job, body, _origin(request, body)))
        shows_reasoning = _shows_reasoning(body)
        if body.stream:
            job = replace(job, request=structs.replace(job.request, reports_progress=True))
            frames = partial(MessageFrames, shows_reasoning=shows_reasoning)
            return self._runner.stream(job, frames, _style())
        finish = partial(message, shows_reasoning=shows_reasoning)
        return _with_id(await self._runner.whole(request, job, finish))

    async def answer(self, body: bytes, origin: RequestOrigin) -> MessageObject:
        """The whole answer to the body of a message in a batch.

        Whether the body asks for a stream does not matter. Raises what `describe` can report.
        """
        asked, _ = parse_served(body, MessagesRequest)
        collected = await self._runner.collect(messages_job(asked, origin))
        return message(collected, shows_reasoning=_shows_reasoning(asked))

    @_route("/v1/messages/count_tokens", response=TokenCount)
    async def count_tokens(self, request: Request, body: PromptRequest) -> Response:
        """Count the tokens of a conversation without answering it."""
        prompt = await translate(request, partial(prompt_request, body))
        job = Job(model=body.model or "", request=prompt)
        count = await run_until_disconnect(request.receive, self._runner.count_tokens(job))
        return _with_id(JSONResponse(TokenCount(count)))


def _shows_reasoning(body: MessagesRequest) -> bool:
    return body.thinking is None or body.thinking.display != "omitted"


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
