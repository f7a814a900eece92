"""The items of an answer while they are written: each tells what it adds, and what it became."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from ..openai.completions.types import TokenLogprob
from .custom_tool_input import CustomToolInput
from .item_reader import seal
from .items import (
    CustomToolCall,
    FunctionCall,
    ItemStatus,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    SummaryText,
)
from .stream_events import (
    ArgumentsDelta,
    ArgumentsDone,
    InputDelta,
    InputDone,
    ItemAdded,
    ItemDone,
    PartAdded,
    PartDone,
    ReasoningDone,
    ReasoningTextDelta,
    StreamEvent,
    SummaryDelta,
    SummaryDone,
    SummaryPartAdded,
    SummaryPartDone,
    TextDelta,
    TextDone,
)
from .tools import CalledTool


class Emit(Protocol):
    """Makes an event of this type, with the next number, and sends it."""

    def __call__(self, event: Callable[..., StreamEvent], **fields: Any) -> None:
        """`fields` are all but `sequence_number`."""
        ...


class OpenItem(Protocol):
    """An item that is being written."""

    def close(self, status: ItemStatus) -> OutputItem:
        """Tell that it is complete, and return it."""
        ...

    def so_far(self) -> OutputItem:
        """What it is now."""
        ...


class OpenMessage:
    """A message, which is one part of text."""

    def __init__(self, emit: Emit, item_id: str, output_index: int) -> None:
        self._emit = emit
        self._id = item_id
        self._place = {"output_index": output_index, "item_id": item_id}
        self._texts: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        item = OutputMessage(id=item_id, status="in_progress", content=[])
        emit(ItemAdded, output_index=output_index, item=item)
        emit(PartAdded, part=OutputText(text=""), **self._place)

    def add(self, text: str, logprobs: list[TokenLogprob]) -> None:
        """More text."""
        self._texts.append(text)
        self._logprobs += logprobs
        self._emit(TextDelta, delta=text, logprobs=logprobs, **self._place)

    def close(self, status: ItemStatus) -> OutputMessage:
        """Text, part and item are done."""
        item = self._item(status)
        part = item.content[0]
        text = "".join(self._texts)
        self._emit(TextDone, text=text, logprobs=self._logprobs, **self._place)
        self._emit(PartDone, part=part, **self._place)
        self._emit(ItemDone, output_index=self._place["output_index"], item=item)
        return item

    def so_far(self) -> OutputMessage:
        """What there is of it."""
        return self._item("in_progress")

    def _item(self, status: ItemStatus) -> OutputMessage:
        part = OutputText(text="".join(self._texts), logprobs=self._logprobs)
        return OutputMessage(id=self._id, status=status, content=[part])


class OpenReasoning:
    """Thoughts: as a summary where one was asked for, else as they are, and never twice."""

    def __init__(
        self, emit: Emit, item_id: str, output_index: int, *, summarized: bool, sealed: bool
    ) -> None:
        self._emit = emit
        self._id = item_id
        self._place = {"output_index": output_index, "item_id": item_id}
        self._summarized = summarized
        self._sealed = sealed
        self._texts: list[str] = []
        item = ReasoningItem(id=item_id, status="in_progress")
        emit(ItemAdded, output_index=output_index, item=item)
        if summarized:
            emit(SummaryPartAdded, part=SummaryText(""), **self._place)
        else:
            emit(PartAdded, part=ReasoningText(""), **self._place)

    def add(self, text: str) -> None:
        """More thoughts."""
        self._texts.append(text)
        self._emit(
            SummaryDelta if self._summarized else ReasoningTextDelta, delta=text, **self._place
        )

    def close(self, status: ItemStatus) -> ReasoningItem:
        """Text, part and item are done."""
        item, text = self._item(status), "".join(self._texts)
        if self._summarized:
            self._emit(SummaryDone, text=text, **self._place)
            self._emit(SummaryPartDone, part=SummaryText(text), **self._place)
        else:
            self._emit(ReasoningDone, text=text, **self._place)
            self._emit(PartDone, part=ReasoningText(text), **self._place)
        self._emit(ItemDone, output_index=self._place["output_index"], item=item)
        return item

    def so_far(self) -> ReasoningItem:
        """What there is of it."""
        return self._item("in_progress")

    def _item(self, status: ItemStatus) -> ReasoningItem:
        text = "".join(self._texts)
        return ReasoningItem(
            id=self._id,
            status=status,
            summary=[SummaryText(text)] if self._summarized else [],
            content=UNSET if self._summarized else [ReasoningText(text)],
            encrypted_content=seal(text) if self._sealed else UNSET,
        )


class OpenFunctionCall:
    """A call of a function."""

    def __init__(
        self, emit: Emit, item_id: str, output_index: int, call_id: str, tool: CalledTool
    ) -> None:
        self._emit = emit
        self._id = item_id
        self._place = {"output_index": output_index, "item_id": item_id}
        self._call_id = call_id
        self._tool = tool
        self._texts: list[str] = []
        emit(ItemAdded, output_index=output_index, item=self._item("in_progress"))

    def add(self, arguments: str) -> None:
        """More of the arguments."""
        self._texts.append(arguments)
        self._emit(ArgumentsDelta, delta=arguments, **self._place)

    def close(self, status: ItemStatus) -> FunctionCall:
        """Arguments and item are done."""
        item = self._item(status)
        self._emit(ArgumentsDone, name=item.name, arguments=item.arguments, **self._place)
        self._emit(ItemDone, output_index=self._place["output_index"], item=item)
        return item

    def so_far(self) -> FunctionCall:
        """What there is of it."""
        return self._item("in_progress")

    def _item(self, status: ItemStatus) -> FunctionCall:
        return FunctionCall(
            id=self._id,
            status=status,
            call_id=self._call_id,
            name=self._tool.name,
            arguments="".join(self._texts),
            namespace=_namespace(self._tool),
        )


class OpenCustomCall:
    """A call of a tool that takes text as it is, which the model writes as JSON."""

    def __init__(
        self, emit: Emit, item_id: str, output_index: int, call_id: str, tool: CalledTool
    ) -> None:
        self._emit = emit
        self._id = item_id
        self._place = {"output_index": output_index, "item_id": item_id}
        self._call_id = call_id
        self._tool = tool
        self._input = CustomToolInput()
        emit(ItemAdded, output_index=output_index, item=self._item("in_progress"))

    def add(self, arguments: str) -> None:
        """More of the JSON."""
        self._tell(self._input.push(arguments))

    def close(self, status: ItemStatus) -> CustomToolCall:
        """Text and item are done."""
        self._tell(self._input.finish())
        item = self._item(status)
        self._emit(InputDone, input=item.input, **self._place)
        self._emit(ItemDone, output_index=self._place["output_index"], item=item)
        return item

    def so_far(self) -> CustomToolCall:
        """What there is of it."""
        return self._item("in_progress")

    def _tell(self, text: str) -> None:
        if text:
            self._emit(InputDelta, delta=text, **self._place)

    def _item(self, status: ItemStatus) -> CustomToolCall:
        return CustomToolCall(
            id=self._id,
            status=status,
            call_id=self._call_id,
            name=self._tool.name,
            input=self._input.text,
            namespace=_namespace(self._tool),
        )


def _namespace(tool: CalledTool) -> str | UnsetType:
    return UNSET if tool.namespace is None else tool.namespace
