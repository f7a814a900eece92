"""Converts a model's events into a response and the events of its stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, structs

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

from ...error_status import describe
from ...http.bodies import encode_event
from ...http.sse_writer import loading_comment
from ..answer_values import PromptProgress, token_logprobs
from ..request_options import merge_sampling
from .output_items import (
    Emit,
    OpenCustomCall,
    OpenFunctionCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
)
from .stream_events import (
    STREAM_EVENTS,
    Completed,
    Created,
    Incomplete,
    InProgress,
    Queued,
    ResponseFailed,
    StreamEvent,
    event_name,
)
from .types import (
    IncompleteDetails,
    IngleDetails,
    Response,
    ResponseError,
    ResponseUsage,
)

if TYPE_CHECKING:
    from ingle.models.metadata.stored_model import StoredModel

    from ...errors import Problem
    from ...lifecycle.lease import Lease
    from ..job import AnswerBuilder
    from .items import ItemStatus, OutputItem
    from .requests import ResponseDraft

PROGRESS_SECONDS = 2.0
"""Between two reports of a prompt's progress: each has the whole response, tools included."""
CONTEXT_EXCEEDED = "context_length_exceeded"
_NAMES = {event: event_name(event) for event in STREAM_EVENTS}


def _sse_frame(data: bytes, event: str) -> bytes:
    return encode_event(data, event=event)


class ResponseAnswer:
    """Builds one response; `frames` holds the encoded events that were not sent yet.

    `ended` is called once, with the response in its final state; `frame` returns the bytes of an
    event from its JSON and its name.
    """

    def __init__(
        self,
        draft: ResponseDraft,
        ended: Callable[[Response], None] = lambda response: None,
        frame: Callable[[bytes, str], bytes] = _sse_frame,
    ) -> None:
        self.frames: list[bytes] = []
        self._frame = frame
        self._draft = draft
        self._ended = ended
        self._response = draft.response()
        self._encoder = msgspec.json.Encoder()
        self._number = 0
        self._output: list[OutputItem] = []
        self._open: OpenItem | None = None
        self._usage = (0, 0)
        self._advanced_at = 0.0
        self._answering: Lease | AnswerBuilder | None = None
        self._is_created = False
        self._is_begun = False
        self.is_over = False
        """Whether the response is in its final state."""

    @property
    def is_begun(self) -> bool:
        """Whether the first event was emitted."""
        return self._is_created

    def response(self) -> Response:
        """The response as it is now."""
        if self.is_over:
            return self._response
        output = [*self._output] if self._open is None else [*self._output, self._open.so_far()]
        return structs.replace(self._response, output=output)

    def use(self, answering: Lease | AnswerBuilder) -> ResponseAnswer:
        """Note the model that is loaded, and its sampling.

        Until it begins, a route may lead to another one.
        """
        self._answering = answering
        return self.expect(answering.model)

    def expect(self, model: StoredModel) -> ResponseAnswer:
        """Note the name and sampling of the model that will answer."""
        sampling = merge_sampling(self._draft.job.options, model.sampling)
        self._response = structs.replace(
            self._response,
            model=model.name,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            frequency_penalty=sampling.frequency_penalty,
            presence_penalty=sampling.presence_penalty,
        )
        return self

    def loading(self, fraction: float) -> bytes:
        """Return the frames of a stream while the model is loading."""
        self.create()
        return self.end() + loading_comment(fraction)

    def create(self) -> None:
        """Emit that the response exists, and in the background that it is queued."""
        if not self._is_created:
            self._is_created = True
            self._emit(Created, response=self._response)
            if self._response.status == "queued":
                self._emit(Queued, response=self._response)

    def begin(self) -> None:
        """Emit that the response is in progress."""
        self.create()
        if not self._is_begun:
            self._is_begun = True
            if self._answering is not None and self._answering.model.name != self._response.model:
                self.use(self._answering)
            dropped = self._draft.fit.dropped
            details = IngleDetails(dropped) if dropped else UNSET
            self._response = structs.replace(self._response, status="in_progress", ingle=details)
            self._emit(InProgress, response=self._response)

    def take(self, prompt: int, events: list[Event]) -> None:
        """Add the events."""
        for event in events:
            match event:
                case Delta():
                    if event.text or event.logprobs is not None:
                        logprobs = token_logprobs(event.logprobs or (), event.token_bytes)
                        self._message().add(event.text, logprobs)
                case ReasoningDelta():
                    if event.text:
                        self._reasoning().add(event.text)
                case ToolCallDelta():
                    if isinstance(self._open, OpenFunctionCall) and event.arguments:
                        self._open.add(event.arguments)
                case ToolCallStarted():
                    self._start_call(event)
                case Started():
                    self._usage = (event.prompt_tokens, event.cached_tokens)
                    self.begin()
                case PromptAdvanced():
                    self._advance(event)
                case Finished():
                    self._end(event)

    def _advance(self, event: PromptAdvanced) -> None:
        """Emit now and then how far the prompt is read, as another event of the progress."""
        if event.seconds - self._advanced_at >= PROGRESS_SECONDS:
            self._advanced_at = event.seconds
            details = self._response.ingle or IngleDetails()
            details = structs.replace(details, prompt_progress=PromptProgress.of(event))
            self._emit(InProgress, response=structs.replace(self._response, ingle=details))

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """Add the events, and return their frames except the final one, which `end` returns."""
        self.take(prompt, events)
        last = self.frames.pop() if self.is_over else None
        frames = self.end()
        if last is not None:
            self.frames.append(last)
        return frames

    def end(self) -> bytes:
        """Return the frames that were not sent yet."""
        frames = b"".join(self.frames)
        self.frames.clear()
        return frames

    def fail(self, error: BaseException) -> None:
        """Emit that the response failed after it began; does nothing if its end was sent."""
        if self.is_over and self.frames:
            self.frames.pop()
            self._number -= 1
            self.is_over = False
        if not self.is_over:
            self.create()
            self._close("incomplete")
            self._finish("failed", error=response_error(describe(error)))

    def cancel(self) -> None:
        """Emit that the response was cancelled; does nothing if it has ended."""
        if not self.is_over:
            self.create()
            self._close("incomplete")
            self._finish("cancelled")

    def failure(self, error: Exception) -> bytes:
        """The last frames of a stream that failed."""
        self.fail(error)
        return self.end()

    def _message(self) -> OpenMessage:
        if not isinstance(self._open, OpenMessage):
            self._open = OpenMessage(*self._next_item("msg"))
        return self._open

    def _reasoning(self) -> OpenReasoning:
        if not isinstance(self._open, OpenReasoning):
            draft = self._draft
            self._open = OpenReasoning(
                *self._next_item("rs"), summarized=draft.summarizes, sealed=draft.seals
            )
        return self._open

    def _start_call(self, event: ToolCallStarted) -> None:
        tool = self._draft.tools.called(event.name)
        kind, prefix = (
            (OpenCustomCall, "ctc") if tool.kind == "custom" else (OpenFunctionCall, "fc")
        )
        self._open = kind(*self._next_item(prefix), event.call_id, tool)

    def _next_item(self, prefix: str) -> tuple[Emit, str, int]:
        """Close the open item, and return what the next one is made with."""
        self._close("completed")
        return self._emit, self._draft.ids.new(prefix), len(self._output)

    def _close(self, status: ItemStatus) -> None:
        if self._open is not None:
            self._output.append(self._open.close(status))
            self._open = None

    def _end(self, event: Finished) -> None:
        cut = event.reason is FinishReason.LENGTH
        self._close("incomplete" if cut else "completed")
        prompt, cached = self._usage
        prompt, cached = prompt + event.prompt_tokens, cached + event.cached_tokens
        usage = ResponseUsage.of(prompt, cached, event)
        if event.reason is FinishReason.CANCELLED:
            self._finish("cancelled", usage=usage)
        elif cut:
            details = IncompleteDetails("max_output_tokens")
            self._finish("incomplete", usage=usage, incomplete_details=details)
        else:
            self._finish("completed", usage=usage, completed_at=int(time.time()))

    def _finish(self, status: str, **fields: Any) -> None:
        """End the response; a cancelled one has no event of its own, and ends as incomplete."""
        self.is_over = True
        self._response = structs.replace(
            self._response, status=status, output=self._output, **fields
        )
        self._ended(self._response)
        last = {"completed": Completed, "failed": ResponseFailed}.get(status, Incomplete)
        self._emit(last, response=self._response)

    def _emit(self, event: Callable[..., StreamEvent], **fields: Any) -> None:
        numbered = event(sequence_number=self._number, **fields)
        self._number += 1
        self.frames.append(self._frame(self._encoder.encode(numbered), _NAMES[type(numbered)]))


def response_error(problem: Problem) -> ResponseError:
    """A failure as a response reports it.

    The code for a conversation that is too long is not among those of the SDK, but it is what the
    original says, and agents shorten their conversation on it.
    """
    if problem.code == CONTEXT_EXCEEDED:
        code = CONTEXT_EXCEEDED
    elif problem.status == 429:
        code = "rate_limit_exceeded"
    else:
        code = "invalid_prompt" if problem.status < 500 else "server_error"
    return ResponseError(code, problem.sentence)
