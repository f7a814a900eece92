"""The items of an answer while they are generated, and the events that they emit."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from msgspec import UNSET

from ..answer_values import TokenLogprob
from .item_reader import seal
from .items import (
    CustomToolCall,
    FunctionCallItem,
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
    OutputTextDelta,
    PartAdded,
    PartDone,
    ReasoningDone,
    ReasoningTextDelta,
    StreamEvent,
    SummaryDelta,
    SummaryDone,
    SummaryPartAdded,
    SummaryPartDone,
    TextDone,
)
from .tools import ClientTool

_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_CERTAIN = re.compile(
    r"""(?:
        [^"\\]
        | \\["\\/bfnrt]
        | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
        # The first half of a surrogate pair, once its second half is complete or cannot follow.
        | \\u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\.{5})
    )++""",
    re.DOTALL | re.VERBOSE,
)
"""Characters and escapes of a JSON string that no later text can change."""


class CustomToolInput:
    """Reads `{"input": "..."}` in pieces; JSON of any other form is read at its end."""

    def __init__(self) -> None:
        self._arguments = ""
        self._at: int | None = None
        """Start of the text that was not returned yet; None before the string begins."""

    def push(self, piece: str) -> str:
        """The text that became certain."""
        self._arguments += piece
        if self._at is None and (begin := _BEGIN.match(self._arguments)) is not None:
            self._at = begin.end()
        certain = None if self._at is None else _CERTAIN.match(self._arguments, self._at)
        if certain is None:
            return ""
        self._at = certain.end()
        return _unescaped(certain.group())

    def finish(self) -> str:
        """The rest of the text, now that no more follows."""
        if self._at is None:
            return _any_text(self._arguments)
        # A rest before the closing quote is an incomplete or invalid escape.
        rest = self._arguments[self._at :]
        return "" if rest.startswith('"') else rest


def _unescaped(piece: str) -> str:
    """The text of a string's inside; half a pair that stays alone becomes a question mark."""
    text = cast("str", json.loads(f'"{piece}"', strict=False))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _any_text(arguments: str) -> str:
    try:
        value: Any = json.loads(arguments)
    except ValueError:
        return arguments
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        texts = [text for text in fields.values() if isinstance(text, str)]
        if isinstance(fields.get("input"), str):
            return fields["input"]
        if len(texts) == 1:
            return texts[0]
    return arguments


Emit = Callable[..., None]
"""Sends an event of the type given first, with its fields; the sequence number is added."""


class OpenItem(ABC):
    """An item that is being generated: emits what is added to it."""

    def __init__(self, emit: Emit, item_id: str, output_index: int) -> None:
        self._emit = emit
        self._id = item_id
        self._index = output_index
        self._texts: list[str] = []
        emit(ItemAdded, output_index=output_index, item=self._begun())

    def so_far(self) -> OutputItem:
        """The item as it is now."""
        return self._item("in_progress")

    def close(self, status: ItemStatus) -> OutputItem:
        """Emit that the item is complete, and return it."""
        self._end()
        item = self._item(status)
        self._emit(ItemDone, output_index=self._index, item=item)
        return item

    @property
    def _text(self) -> str:
        return "".join(self._texts)

    def _begun(self) -> OutputItem:
        """The item as it begins."""
        return self.so_far()

    @abstractmethod
    def _item(self, status: ItemStatus) -> OutputItem:
        """The item with what was added so far."""

    @abstractmethod
    def _end(self) -> None:
        """Emit the events for the end of the item's content."""

    def _tell(self, event: type[StreamEvent], **fields: Any) -> None:
        """Emit an event inside this item."""
        self._emit(event, output_index=self._index, item_id=self._id, **fields)


class OpenMessage(OpenItem):
    """A message, which is one part of text."""

    def __init__(self, emit: Emit, item_id: str, output_index: int) -> None:
        self._logprobs: list[TokenLogprob] = []
        super().__init__(emit, item_id, output_index)
        self._tell(PartAdded, part=OutputText(text=""))

    def add(self, text: str, logprobs: list[TokenLogprob]) -> None:
        """Append text."""
        self._texts.append(text)
        self._logprobs += logprobs
        self._tell(OutputTextDelta, delta=text, logprobs=logprobs)

    def _begun(self) -> OutputMessage:
        return OutputMessage(id=self._id, status="in_progress", content=[])

    def _end(self) -> None:
        self._tell(TextDone, text=self._text, logprobs=self._logprobs)
        self._tell(PartDone, part=self._part())

    def _item(self, status: ItemStatus) -> OutputMessage:
        return OutputMessage(id=self._id, status=status, content=[self._part()])

    def _part(self) -> OutputText:
        return OutputText(text=self._text, logprobs=self._logprobs)


class OpenReasoning(OpenItem):
    """Reasoning: as a summary if one was requested, else as content, never both."""

    def __init__(
        self, emit: Emit, item_id: str, output_index: int, *, summarized: bool, sealed: bool
    ) -> None:
        self._summarized = summarized
        self._sealed = sealed
        super().__init__(emit, item_id, output_index)
        if summarized:
            self._tell(SummaryPartAdded, part=SummaryText(""))
        else:
            self._tell(PartAdded, part=ReasoningText(""))

    def add(self, text: str) -> None:
        """Append reasoning."""
        self._texts.append(text)
        self._tell(SummaryDelta if self._summarized else ReasoningTextDelta, delta=text)

    def _begun(self) -> ReasoningItem:
        return ReasoningItem(id=self._id, status="in_progress")

    def _end(self) -> None:
        if self._summarized:
            self._tell(SummaryDone, text=self._text)
            self._tell(SummaryPartDone, part=SummaryText(self._text))
        else:
            self._tell(ReasoningDone, text=self._text)
            self._tell(PartDone, part=ReasoningText(self._text))

    def _item(self, status: ItemStatus) -> ReasoningItem:
        text = self._text
        return ReasoningItem(
            id=self._id,
            status=status,
            summary=[SummaryText(text)] if self._summarized else [],
            content=UNSET if self._summarized else [ReasoningText(text)],
            encrypted_content=seal(text) if self._sealed else UNSET,
        )


class OpenFunctionCall(OpenItem):
    """A call of a function."""

    def __init__(
        self, emit: Emit, item_id: str, output_index: int, call_id: str, tool: ClientTool
    ) -> None:
        self._fields: dict[str, Any] = {
            "id": item_id,
            "call_id": call_id,
            "name": tool.name,
            "namespace": UNSET if tool.namespace is None else tool.namespace,
        }
        super().__init__(emit, item_id, output_index)

    def add(self, arguments: str) -> None:
        """Append a piece of the arguments."""
        self._texts.append(arguments)
        self._tell(ArgumentsDelta, delta=arguments)

    def _end(self) -> None:
        self._tell(ArgumentsDone, name=self._fields["name"], arguments=self._text)

    def _item(self, status: ItemStatus) -> OutputItem:
        return FunctionCallItem(**self._fields, status=status, arguments=self._text)


class OpenCustomCall(OpenFunctionCall):
    """A call of a tool that takes free text, which the model writes as JSON."""

    def __init__(
        self, emit: Emit, item_id: str, output_index: int, call_id: str, tool: ClientTool
    ) -> None:
        self._input = CustomToolInput()
        super().__init__(emit, item_id, output_index, call_id, tool)

    def add(self, arguments: str) -> None:
        """Append a piece of the JSON."""
        self._add_input(self._input.push(arguments))

    def _add_input(self, text: str) -> None:
        if text:
            self._texts.append(text)
            self._tell(InputDelta, delta=text)

    def _end(self) -> None:
        self._add_input(self._input.finish())
        self._tell(InputDone, input=self._text)

    def _item(self, status: ItemStatus) -> OutputItem:
        return CustomToolCall(**self._fields, status=status, input=self._text)
