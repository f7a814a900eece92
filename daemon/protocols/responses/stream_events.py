"""The events of a streamed response, numbered from 0."""

from __future__ import annotations

import msgspec

from ..answer_values import TokenLogprob
from .items import OutputItem, OutputText, ReasoningText, Refusal, SummaryText
from .types import Response


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """The fields of all events."""

    sequence_number: int


class LifecycleEvent(StreamEvent, frozen=True, kw_only=True):
    """The response reached another state."""

    response: Response


class Created(LifecycleEvent, frozen=True, tag="response.created"):
    """The response exists."""


class Queued(LifecycleEvent, frozen=True, tag="response.queued"):
    """The response is waiting in the background."""


class InProgress(LifecycleEvent, frozen=True, tag="response.in_progress"):
    """The model has started the prefill."""


class Completed(LifecycleEvent, frozen=True, tag="response.completed"):
    """The response is complete."""


class Incomplete(LifecycleEvent, frozen=True, tag="response.incomplete"):
    """The response ended early."""


class ResponseFailed(LifecycleEvent, frozen=True, tag="response.failed"):
    """The response failed; it contains the reason."""


class ItemEvent(StreamEvent, frozen=True, kw_only=True):
    """Something about the item at `output_index`."""

    output_index: int


class ItemAdded(ItemEvent, frozen=True, kw_only=True, tag="response.output_item.added"):
    """An item begins, still empty."""

    item: OutputItem


class ItemDone(ItemEvent, frozen=True, kw_only=True, tag="response.output_item.done"):
    """An item is complete."""

    item: OutputItem


class InItem(ItemEvent, frozen=True, kw_only=True):
    """Something inside an item that has begun."""

    item_id: str


class PartEvent(InItem, frozen=True, kw_only=True):
    """Something about one part of an item's content."""

    content_index: int = 0


class PartAdded(PartEvent, frozen=True, kw_only=True, tag="response.content_part.added"):
    """A part begins, still empty."""

    part: OutputText | Refusal | ReasoningText


class PartDone(PartEvent, frozen=True, kw_only=True, tag="response.content_part.done"):
    """A part is complete."""

    part: OutputText | Refusal | ReasoningText


class OutputTextDelta(PartEvent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    """More text."""

    delta: str
    logprobs: list[TokenLogprob] = []


class TextDone(PartEvent, frozen=True, kw_only=True, tag="response.output_text.done"):
    """The whole text."""

    text: str
    logprobs: list[TokenLogprob] = []


class ReasoningDone(PartEvent, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    """The whole reasoning."""

    text: str


class ReasoningTextDelta(PartEvent, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    """More reasoning."""

    delta: str


class SummaryEvent(InItem, frozen=True, kw_only=True):
    """Something about the summary of the reasoning, which is one part."""

    summary_index: int = 0


class SummaryPartAdded(
    SummaryEvent, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"
):
    """The summary begins."""

    part: SummaryText


class SummaryPartDone(
    SummaryEvent, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"
):
    """The summary is complete."""

    part: SummaryText


class SummaryDelta(
    SummaryEvent, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"
):
    """More of the summary."""

    delta: str


class SummaryDone(
    SummaryEvent, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"
):
    """The whole summary."""

    text: str


class ArgumentsDelta(
    InItem, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"
):
    """More of a call's arguments."""

    delta: str


class ArgumentsDone(InItem, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    """The whole arguments."""

    name: str
    arguments: str


class InputDelta(InItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"):
    """More of the input of a custom tool."""

    delta: str


class InputDone(InItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"):
    """The whole input of a custom tool."""

    input: str


STREAM_EVENTS: tuple[type[StreamEvent], ...] = (
    *(Created, Queued, InProgress, Completed, Incomplete, ResponseFailed),
    *(ItemAdded, ItemDone, PartAdded, PartDone, OutputTextDelta, TextDone),
    *(ReasoningTextDelta, ReasoningDone),
    *(SummaryPartAdded, SummaryPartDone, SummaryDelta, SummaryDone),
    *(ArgumentsDelta, ArgumentsDone, InputDelta, InputDone),
)


def event_name(event: type[StreamEvent]) -> str:
    """The event's name on the wire."""
    return str(event.__struct_config__.tag)
