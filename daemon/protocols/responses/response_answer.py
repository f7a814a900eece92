"""From a model's events to a response and the events of its stream, which are one and the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, structs

from ingle.backends.base.events import (
    Delta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    ToolCallDelta,
    ToolCallStarted,
)
from ingle.models.metadata.stored_model import StoredModel

from ...error_status import describe
from ...http.sse_writer import encode_event, loading_comment
from ..openai.completions.logprobs import chat_logprobs
from ..sampling_options import merge_sampling
from .output_items import OpenCustomCall, OpenFunctionCall, OpenMessage, OpenReasoning
from .response_types import (
    IncompleteDetails,
    IngleDetails,
    InputTokensDetails,
    OutputTokensDetails,
    Response,
    ResponseError,
    ResponseUsage,
)
from .stream_events import (
    STREAM_EVENTS,
    Completed,
    Created,
    Failed,
    Incomplete,
    InProgress,
    Queued,
    StreamEvent,
    event_name,
)

if TYPE_CHECKING:
    from ...errors import Problem
    from .items import ItemStatus, OutputItem
    from .response_draft import ResponseDraft

CONTEXT_EXCEEDED = "context_length_exceeded"
_NAMES = {event: event_name(event) for event in STREAM_EVENTS}

Open = OpenMessage | OpenReasoning | OpenFunctionCall | OpenCustomCall


class AnsweredResponse(Protocol):
    """Whoever knows which model answers: a lease, or what is collected from one."""

    @property
    def model(self) -> StoredModel:
        """That model, as it is known now."""
        ...


class ResponseAnswer:
    """Builds one response; `frames` holds the encoded events that nobody took yet.

    `ended` is called once, with the response as it will stay.
    """

    def __init__(
        self, draft: ResponseDraft, ended: Callable[[Response], None] = lambda response: None
    ) -> None:
        self.frames: list[bytes] = []
        self._draft = draft
        self._ended = ended
        self._response = draft.response()
        self._encoder = msgspec.json.Encoder()
        self._number = 0
        self._output: list[OutputItem] = []
        self._open: Open | None = None
        self._usage = (0, 0)
        self._answering: AnsweredResponse | None = None
        self._is_created = False
        self._is_begun = False
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the response is as it will stay."""
        return self._is_over

    def response(self) -> Response:
        """The response as it is now."""
        if self._is_over:
            return self._response
        output = [*self._output] if self._open is None else [*self._output, self._open.so_far()]
        return structs.replace(self._response, output=output)

    def use(self, answering: AnsweredResponse) -> None:
        """The model is there: say which it is, and how it will be sampled.

        Until it begins, a route may lead to another one.
        """
        self._answering = answering
        model = answering.model
        sampling = merge_sampling(self._draft.job.options, model.sampling)
        self._response = structs.replace(
            self._response,
            model=model.name,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
        )

    def using(self, answering: AnsweredResponse) -> ResponseAnswer:
        """The same answer, now that the model is there."""
        self.use(answering)
        return self

    def loading(self, fraction: float) -> bytes:
        """What a stream is told while the model is loaded."""
        self.create()
        return self.drain() + loading_comment(fraction)

    def create(self) -> None:
        """Tell that the response exists, and in the background that it waits."""
        if not self._is_created:
            self._is_created = True
            self._emit(Created, response=self._response)
            if self._response.status == "queued":
                self._emit(Queued, response=self._response)

    def begin(self) -> None:
        """Tell that the model is at it."""
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
        """Add what the events say."""
        for event in events:
            self._take(event)

    def feed(self, prompt: int, events: list[Event]) -> bytes:
        """The same, for a stream; what says that it is over waits for `end`."""
        self.take(prompt, events)
        last = self.frames.pop() if self._is_over else None
        frames = self.drain()
        if last is not None:
            self.frames.append(last)
        return frames

    def drain(self) -> bytes:
        """What the stream was not told yet."""
        frames = b"".join(self.frames)
        self.frames.clear()
        return frames

    def end(self) -> bytes:
        """The last event, for a client that may rely on it: the response is where it stays."""
        return self.drain()

    def fail(self, error: BaseException) -> None:
        """Tell that the response failed after it began; nothing happens where it is over."""
        if not self._is_over:
            self.create()
            self._close("incomplete")
            self._finish("failed", error=response_error(describe(error)))

    def cancel(self) -> None:
        """Somebody asked to stop."""
        if not self._is_over:
            self.create()
            self._close("incomplete")
            self._finish("cancelled")

    def failure(self, error: Exception) -> bytes:
        """What a stream is told last."""
        self.fail(error)
        return self.drain()

    def _take(self, event: Event) -> None:
        match event:
            case Delta():
                found = chat_logprobs(event)
                if event.text or found is not None:
                    self._message().add(event.text, found.content if found is not None else [])
            case ReasoningDelta():
                if event.text:
                    self._reasoning().add(event.text)
            case ToolCallDelta():
                if isinstance(self._open, OpenFunctionCall | OpenCustomCall) and event.arguments:
                    self._open.add(event.arguments)
            case ToolCallStarted():
                self._start_call(event)
            case Started():
                self._usage = (event.prompt_tokens, event.cached_tokens)
                self.begin()
            case Finished():
                self._end(event)

    def _message(self) -> OpenMessage:
        if not isinstance(self._open, OpenMessage):
            self._close("completed")
            self._open = OpenMessage(self._emit, self._draft.ids.new("msg"), len(self._output))
        return self._open

    def _reasoning(self) -> OpenReasoning:
        if not isinstance(self._open, OpenReasoning):
            self._close("completed")
            self._open = OpenReasoning(
                self._emit,
                self._draft.ids.new("rs"),
                len(self._output),
                summarized=self._draft.summarizes,
                sealed=self._draft.seals,
            )
        return self._open

    def _start_call(self, event: ToolCallStarted) -> None:
        self._close("completed")
        tool = self._draft.tools.called(event.name)
        kind, prefix = (
            (OpenCustomCall, "ctc") if tool.kind == "custom" else (OpenFunctionCall, "fc")
        )
        item_id = self._draft.ids.new(prefix)
        self._open = kind(self._emit, item_id, len(self._output), event.call_id, tool)

    def _close(self, status: ItemStatus) -> None:
        if self._open is not None:
            self._output.append(self._open.close(status))
            self._open = None

    def _end(self, event: Finished) -> None:
        cut = event.reason is FinishReason.LENGTH
        self._close("incomplete" if cut else "completed")
        prompt, cached = self._usage
        prompt, cached = prompt + event.prompt_tokens, cached + event.cached_tokens
        usage = ResponseUsage(
            input_tokens=prompt,
            input_tokens_details=InputTokensDetails(cached_tokens=cached),
            output_tokens=event.completion_tokens,
            output_tokens_details=OutputTokensDetails(event.reasoning_tokens),
            total_tokens=prompt + event.completion_tokens,
        )
        if event.reason is FinishReason.CANCELLED:
            self._finish("cancelled", usage=usage)
        elif cut:
            details = IncompleteDetails("max_output_tokens")
            self._finish("incomplete", usage=usage, incomplete_details=details)
        else:
            self._finish("completed", usage=usage, completed_at=int(time.time()))

    def _finish(self, status: str, **fields: Any) -> None:
        """The last change; a cancelled response has no event of its own, and ends as incomplete."""
        self._is_over = True
        self._response = structs.replace(
            self._response, status=status, output=self._output, **fields
        )
        self._ended(self._response)
        last = {"completed": Completed, "failed": Failed}.get(status, Incomplete)
        self._emit(last, response=self._response)

    def _emit(self, event: Callable[..., StreamEvent], **fields: Any) -> None:
        told = event(sequence_number=self._number, **fields)
        self._number += 1
        self.frames.append(encode_event(self._encoder.encode(told), event=_NAMES[type(told)]))


def response_error(problem: Problem) -> ResponseError:
    """A failure in the words that a response has for it.

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
