"""LM Studio's stateful chat, on the stored responses of OpenAI's Responses API."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

import msgspec
from msgspec import UNSET, structs
from starlette.requests import Request
from starlette.responses import Response

from ingle.backends.base.conversation import Reasoning
from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    PromptAdvanced,
    ReasoningDelta,
    Started,
)

from ...error_status import describe
from ...errors import InvalidBody
from ...http.bodies import OPENAI, JSONResponse, encode_event, run_until_disconnect
from ...http.route_access import INFERENCE
from ...http.route_spec import GENERATION_ERRORS, StreamSpec, route
from ...http.sse_writer import StreamStyle
from ...services import Services
from ..ingle_options import PRIVATE_HEADER, origin_of
from ..job import AnswerBuilder, CollectedAnswer
from ..job_runner import JobApi
from ..request_options import SamplingOptions
from ..responses.requests import ResponseDraft, draft_response
from ..responses.response_answer import ResponseAnswer
from ..responses.response_state import ConversationState
from ..responses.types import Response as RecordedResponse
from ..responses.types import ResponsesRequest
from .chat_types import (
    CHAT_EVENTS,
    ChatEnd,
    ChatErrorDetail,
    ChatFailed,
    ChatInput,
    ChatOutput,
    ChatStart,
    ChatStats,
    ModelLoadEnd,
    ModelLoadProgress,
    ModelLoadStart,
    PrefillEnd,
    PrefillProgress,
    PrefillStart,
    ReasoningEnd,
    ReasoningPiece,
    ReasoningStart,
    StatefulChat,
    StatefulChatRequest,
    TextEnd,
    TextPiece,
    TextStart,
)


class LMStudioChatApi(JobApi):
    """`POST /api/v1/chat`."""

    def __init__(self, services: Services, state: ConversationState) -> None:
        super().__init__(services)
        self._state = state

    @route(
        "POST",
        "/api/v1/chat",
        access=INFERENCE,
        error_format=OPENAI,
        response=StatefulChat,
        stream=StreamSpec(
            {str(event.__struct_config__.tag): event for event in CHAT_EVENTS},
            only_if="`stream` is true",
        ),
        parameters=(PRIVATE_HEADER,),
        errors=GENERATION_ERRORS,
    )
    async def chat(self, request: Request, body: StatefulChatRequest) -> Response:
        """Answer a message, which continues a stored conversation."""
        draft = await self._draft(request, body)
        if draft.keeps:
            await self._services.responses.check_room()
        chat = ChatAnswer(draft, ResponseAnswer(draft, partial(self._state.keep, draft)))
        if body.stream:
            style = StreamStyle(on_error=chat.failure, loading=chat.loading)
            return self._runner.stream(
                draft.job, chat.begin, style, lambda: self._state.flush(draft, chat.recorded)
            )
        return JSONResponse(await run_until_disconnect(request.receive, self._collect(chat)))

    async def _collect(self, chat: ChatAnswer) -> StatefulChat:
        job = chat.draft.job
        async with self._runner.lease(job, chat.progressed, whole=True) as (lease, load_seconds):
            chat.begin(AnswerBuilder(job, lease, load_seconds=load_seconds))
            await self._runner.run(job, lease, chat.take)
        await self._state.flush(chat.draft, chat.recorded)
        return chat.result

    async def _draft(self, request: Request, body: StatefulChatRequest) -> ResponseDraft:
        asked = ResponsesRequest(
            **{name: getattr(body, name) for name in SamplingOptions.__struct_fields__},
            model=body.model,
            input=_items(body),
            previous_response_id=body.previous_response_id,
            store=body.store,
            max_output_tokens=body.max_output_tokens,
            ingle=body.ingle,
        )
        draft = await draft_response(asked, origin_of(request, body.ingle), self._state)
        reasoning = _reasoning(body)
        wanted = structs.replace(
            draft.job.request, reasoning=reasoning, reports_progress=bool(body.stream)
        )
        job = dataclasses.replace(draft.job, request=wanted, context=body.context_length)
        return dataclasses.replace(draft, job=job)


class ChatAnswer:
    """Builds one answer, records it as a response, and encodes LM Studio's events.

    The stream's first events are those of the load, if there is one.
    """

    def __init__(self, draft: ResponseDraft, record: ResponseAnswer) -> None:
        self.draft = draft
        self._record = record
        self._collected: AnswerBuilder | None = None
        self._is_started = False
        self._is_loading = False
        self._phase: type[PrefillEnd | ReasoningEnd | TextEnd] | None = None
        """The event that ends what the model is doing."""

    @property
    def recorded(self) -> RecordedResponse:
        """The response as it is stored."""
        return self._record.response()

    @property
    def result(self) -> StatefulChat:
        """The answer so far."""
        answer, stats = CollectedAnswer(), _stats(self._collected, is_loaded=self._is_loading)
        if self._collected is not None:
            (answer,) = self._collected.answers
        output = [
            ChatOutput("reasoning", "".join(answer.reasoning)),
            ChatOutput("message", "".join(answer.text)),
        ]
        return StatefulChat(
            model_instance_id=self._model,
            output=[each for each in output if each.content],
            stats=stats,
            response_id=self.draft.job.id if self.draft.keeps else UNSET,
        )

    def begin(self, empty: AnswerBuilder) -> ChatAnswer:
        """Note the model that answers."""
        self._collected = empty
        self._record.use(empty)
        return self

    def take(self, prompt: int, events: list[Event]) -> None:
        """Add the events."""
        assert self._collected is not None
        self._collected.take(prompt, events)
        self._record.feed(prompt, events)

    def loading(self, fraction: float) -> bytes:
        """The frames while the model is loading."""
        events = [*self._start()]
        if fraction > 0:  # else the request may be waiting in the queue of a loaded model
            events += [] if self._is_loading else [ModelLoadStart(self._model)]
            events.append(ModelLoadProgress(self._model, round(fraction, 3)))
            self._is_loading = True
        return _frames(events)

    def progressed(self, fraction: float) -> None:
        """Note that the model is being loaded."""
        self._is_loading = self._is_loading or fraction > 0

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """Add the events, and return their frames."""
        self.take(prompt, events)
        return _frames(found for event in events for found in self._events(event))

    def end(self) -> bytes:
        """The last frame."""
        return _frames([ChatEnd(self.result)])

    def failure(self, error: Exception) -> bytes:
        """The last frames of a stream that failed."""
        self._record.fail(error)
        problem = describe(error)
        usual = "invalid_request" if problem.status < 500 else "internal_error"
        detail = ChatErrorDetail(
            type="model_not_found" if problem.code == "model_not_found" else usual,
            message=problem.sentence,
            code=problem.code,
            param=problem.param or UNSET,
        )
        result = structs.replace(self.result, response_id=UNSET)
        return _frames([*self._start(), ChatFailed(detail), ChatEnd(result)])

    @property
    def _model(self) -> str:
        return self.draft.job.model if self._collected is None else self._collected.model.name

    def _start(self) -> Iterator[msgspec.Struct]:
        if not self._is_started:
            self._is_started = True
            yield ChatStart(self._model)

    def _events(self, event: Event) -> Iterator[msgspec.Struct]:
        match event:
            case Started():
                yield from self._start()
                if self._is_loading and self._collected is not None:
                    yield ModelLoadEnd(self._model, round(self._collected.load_seconds, 3))
                yield PrefillStart()
                cached = event.cached_tokens / max(1, event.prompt_tokens)
                yield PrefillProgress(round(cached, 3))
                self._phase = PrefillEnd
            case PromptAdvanced():
                share = event.computed_tokens / max(1, event.prompt_tokens)
                if share < 1:
                    yield PrefillProgress(round(share, 3))
            case ReasoningDelta(text=text) if text:
                yield from self._turn_to(ReasoningStart(), ReasoningEnd)
                yield ReasoningPiece(text)
            case Delta(text=text) if text:
                yield from self._turn_to(TextStart(), TextEnd)
                yield TextPiece(text)
            case Finished():
                yield from self._turn_to(None, None)
            case _:  # no tools are offered
                return

    def _turn_to(
        self, start: msgspec.Struct | None, end: type[ReasoningEnd | TextEnd] | None
    ) -> Iterator[msgspec.Struct]:
        """End what the model was doing, and begin what it does now, unless it is the same."""
        if self._phase is end:
            return
        if self._phase is PrefillEnd:
            yield PrefillProgress(1)
        if self._phase is not None:
            yield self._phase()
        self._phase = end
        if start is not None:
            yield start


def _items(body: StatefulChatRequest) -> list[msgspec.Raw]:
    """The system prompt and the message as items of a response's input; raises `InvalidBody`."""
    given = [ChatInput("text", body.input)] if isinstance(body.input, str) else body.input
    if not given:
        raise InvalidBody("'input' holds nothing that a model can answer.", param="input")
    texts = [part.content for part in given if part.type != "image"]
    parts = [{"type": "input_text", "text": "\n".join(texts)}]
    parts += [
        {"type": "input_image", "image_url": part.data_url}
        for part in given
        if part.type == "image"
    ]
    messages: list[dict[str, object]] = []
    if body.system_prompt:
        messages.append({"role": "system", "content": body.system_prompt})
    messages.append({"role": "user", "content": parts})
    return [msgspec.Raw(msgspec.json.encode(message)) for message in messages]


def _reasoning(body: StatefulChatRequest) -> Reasoning:
    match body.reasoning:
        case None:
            return Reasoning()
        case "on" | "off":
            return Reasoning(enabled=body.reasoning == "on")
        case effort:
            return Reasoning(enabled=True, effort=effort)


def _stats(collected: AnswerBuilder | None, *, is_loaded: bool) -> ChatStats:
    if collected is None:
        return ChatStats(
            input_tokens=0,
            total_output_tokens=0,
            reasoning_output_tokens=0,
            tokens_per_second=0,
            time_to_first_token_seconds=0,
        )
    total = collected.total
    first = max((end.queue_seconds + end.prompt_seconds for end in collected.ended), default=0.0)
    rate = total.completion_tokens / total.decode_seconds if total.decode_seconds else 0.0
    return ChatStats(
        input_tokens=collected.prompt_tokens,
        total_output_tokens=total.completion_tokens,
        reasoning_output_tokens=total.reasoning_tokens,
        tokens_per_second=round(rate, 3),
        time_to_first_token_seconds=round(first, 4),
        model_load_time_seconds=round(collected.load_seconds, 3) if is_loaded else UNSET,
    )


def _frames(events: Iterator[msgspec.Struct] | list[msgspec.Struct]) -> bytes:
    return b"".join(
        encode_event(msgspec.json.encode(event), event=str(event.__struct_config__.tag))
        for event in events
    )
