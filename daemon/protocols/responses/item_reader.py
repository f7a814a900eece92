"""Reads the items that clients send, and converts them into messages of a chat template."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ingle.backends.base.conversation import ChatMessage, ToolCall

from ...errors import InvalidBody, UnsupportedField
from ...http.bodies import parse
from ..picture_parts import MessageContent, document_bytes, read_picture
from .items import (
    CompactionItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallItem,
    FunctionCallOutput,
    HostedCall,
    HostedOutput,
    InputFile,
    InputImage,
    InputPart,
    InputText,
    Item,
    ItemIds,
    MessageItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Refusal,
    SummaryText,
)
from .tools import custom_arguments, joined_name

TEXT_PARTS = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})
SEALED = "ingle1:"
"""The prefix of ingle's own `encrypted_content`, below its base64."""

OMITTED = "[Something that this model cannot read was left out here.]"


class _Head(msgspec.Struct):
    type: str | None = None
    role: str | None = None
    id: str | None = None


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_data: str | None = None
    filename: str | None = None


class _Message(msgspec.Struct):
    role: Literal["user", "system", "developer", "assistant"]
    content: str | list[_Part] | None = None
    id: str | None = None


class _Reasoning(msgspec.Struct):
    id: str | None = None
    summary: list[_Part] | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None


class _FunctionOutput(msgspec.Struct):
    output: str | list[_Part]
    call_id: str | None = None
    id: str | None = None


class _CustomOutput(msgspec.Struct):
    call_id: str
    output: str | list[_Part]
    id: str | None = None


class _Hosted(msgspec.Struct):
    id: str | None = None
    call_id: str | None = None
    action: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    operation: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    output: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


_COMPLETED: Mapping[str, tuple[type[FunctionCallItem | CustomToolCall | CompactionItem], str]] = {
    "function_call": (FunctionCallItem, "fc"),
    "custom_tool_call": (CustomToolCall, "ctc"),
    "compaction": (CompactionItem, "cmp"),
}
"""Items that are read as they are, with the prefix of the ids of those that have none."""


def reference_of(raw: msgspec.Raw, place: str) -> str | None:
    """The id of the item that this one refers to; None if it is an item itself."""
    head = parse(bytes(raw), _Head, place)
    if head.type == "item_reference" or (head.type is None and head.role is None):
        if head.id is None:
            raise InvalidBody(f"'{place}' has neither a type nor a role.", param=place)
        return head.id
    return None


def read_item(raw: msgspec.Raw, place: str, ids: ItemIds) -> Item | None:
    """The item with an id, or None if the model cannot use it; raises `InvalidBody`."""
    data = bytes(raw)
    kind = parse(data, _Head, place).type or "message"
    match kind:
        case "message":
            return _read_message(data, place, ids)
        case "reasoning":
            return _read_reasoning(parse(data, _Reasoning, place), ids)
        case "function_call_output":
            done = parse(data, _FunctionOutput, place)
            return FunctionCallOutput(
                id=done.id or ids.new("fco"),
                call_id=done.call_id or msgspec.UNSET,
                output=_output(done.output, place),
            )
        case "custom_tool_call_output":
            edited = parse(data, _CustomOutput, place)
            return CustomToolCallOutput(
                id=edited.id or ids.new("ctco"),
                call_id=edited.call_id,
                output=_output(edited.output, place),
            )
        case _ if kind in _COMPLETED:
            return _read_completed(data, kind, place, ids)
        case _:
            return _read_hosted(data, kind, place, ids)


def _read_completed(data: bytes, kind: str, place: str, ids: ItemIds) -> Item:
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    fields = {name: raw for name, raw in fields.items() if bytes(raw) != b"null"}
    item_type, prefix = _COMPLETED[kind]
    fields.setdefault("id", _raw(""))
    item = parse(msgspec.json.encode(fields | {"status": _raw("completed")}), item_type, place)
    return item if item.id else msgspec.structs.replace(item, id=ids.new(prefix))


def _read_message(data: bytes, place: str, ids: ItemIds) -> Item:
    message = parse(data, _Message, place)
    item_id, content = message.id or ids.new("msg"), message.content
    if message.role == "assistant":
        parts = [_Part("output_text", content)] if isinstance(content, str) else content or []
        return OutputMessage(
            id=item_id,
            status="completed",
            content=[_said(part, f"{place}.content[{j}]") for j, part in enumerate(parts)],
        )
    if content is None:
        raise InvalidBody(f"'{place}.content' is missing.", param=f"{place}.content")
    parts = [_Part("input_text", content)] if isinstance(content, str) else content
    said = [_input(part, f"{place}.content[{j}]") for j, part in enumerate(parts)]
    return MessageItem(id=item_id, role=message.role, content=said)


def _read_hosted(data: bytes, kind: str, place: str, ids: ItemIds) -> Item | None:
    """A call of a tool like the local shell, or its result: text that the model should see."""
    is_output = kind.endswith("_call_output")
    if not is_output and not kind.endswith("_call"):
        return None
    item = parse(data, _Hosted, place)
    call_id = item.call_id or item.id
    contents = [item.output] if is_output else [item.action, item.operation]
    text = next((text for text in map(_json_text, contents) if text), None)
    if call_id is None or text is None:
        return None
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    fields.setdefault("id", _raw(ids.new("hosted")))
    fields.setdefault("status", _raw("completed"))
    raw = msgspec.Raw(msgspec.json.encode(fields))
    if is_output:
        return HostedOutput(raw=raw, call_id=call_id, output=text)
    name = kind.removesuffix("_call")
    return HostedCall(raw=raw, call_id=call_id, name=name, arguments=text)


def seal(text: str) -> str:
    """Reasoning as `encrypted_content`, which clients send back unchanged.

    It is encoded, not encrypted: it comes from the user's own machine and goes nowhere else.
    """
    return base64.b64encode((SEALED + text).encode()).decode()


def unseal(content: str | None) -> str | None:
    """The text in `encrypted_content`; None if another server has encrypted it."""
    if not content:
        return None
    try:
        text = base64.b64decode(content, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return text.removeprefix(SEALED) if text.startswith(SEALED) else None


def _read_reasoning(item: _Reasoning, ids: ItemIds) -> ReasoningItem:
    content = [ReasoningText(part.text or "") for part in item.content or ()]
    return ReasoningItem(
        id=item.id or ids.new("rs"),
        summary=[SummaryText(part.text or "") for part in item.summary or ()],
        content=content or msgspec.UNSET,
        encrypted_content=item.encrypted_content or msgspec.UNSET,
    )


def _output(output: str | list[_Part], place: str) -> str | list[InputPart]:
    """The output of a tool; a note replaces each part that is neither text nor a picture."""
    if isinstance(output, str):
        return output
    return [_output_part(part, f"{place}.output[{j}]") for j, part in enumerate(output)]


def _output_part(part: _Part, place: str) -> InputPart:
    if part.type in ("input_image", "input_file"):
        with suppress(InvalidBody):
            # A page that a tool read must not choose what is fetched.
            return _input(part, place, may_fetch=False)
    return InputText(part.text if part.text is not None else OMITTED)


def _input(part: _Part, place: str, *, may_fetch: bool = True) -> InputPart:
    if part.type == "input_file":
        document_bytes(part.file_data, f"{place}.file_data")
        return InputFile(filename=part.filename or "document.pdf", file_data=part.file_data or "")
    if part.type != "input_image":
        return InputText(_text(part, place))
    read_picture(part.image_url, f"{place}.image_url", may_fetch=may_fetch)
    return InputImage(image_url=part.image_url or "", detail=part.detail or "auto")


def _said(part: _Part, place: str) -> OutputText | Refusal:
    if part.type == "refusal":
        return Refusal(part.refusal or "")
    return OutputText(text=_text(part, place))


def _text(part: _Part, place: str) -> str:
    if part.type not in TEXT_PARTS:
        raise UnsupportedField(
            f"'{place}' is of type {part.type[:40]!r}, and models here read text and pictures "
            "only.",
            hint="Send text parts, pictures as `input_image`, and PDF files as `input_file`; sound "
            "is not supported yet.",
            param=place,
        )
    if part.text is None:
        raise InvalidBody(f"'{place}.text' is missing.", param=f"{place}.text")
    return part.text


def _json_text(raw: msgspec.Raw) -> str:
    """The content of a JSON string, else the JSON itself; "" for null."""
    text = bytes(raw).decode()
    if text.startswith('"'):
        return msgspec.json.decode(text, type=str)
    return "" if text == "null" else text


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(text))


SUMMARY = "A summary of the conversation up to here:"

ROLES = {"user": "user", "system": "system", "developer": "system"}


def chat_messages(instructions: str | None, items: Iterable[Item]) -> list[ChatMessage]:
    """The conversation for a template.

    It only grows from turn to turn, so that the KV cache of earlier turns can be reused.
    """
    conversation = _Conversation()
    if instructions:
        conversation.messages.append(ChatMessage("system", instructions))
    for item in items:
        conversation.add(item)
    conversation.end_turn()
    return conversation.messages


@dataclass
class _Conversation:
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    _reasoning_text: str = ""
    _text: str | None = None
    _calls: list[ToolCall] = field(default_factory=list[ToolCall])

    def add(self, item: Item) -> None:
        match item:
            case ReasoningItem():
                self._begin_turn()
                self._reasoning_text = reasoning_text_of(item)
            case OutputMessage():
                self._begin_turn()
                self._text = "".join(
                    part.text if isinstance(part, OutputText) else part.refusal
                    for part in item.content
                )
            case FunctionCallItem() | CustomToolCall():
                name = joined_name(item.namespace or None, item.name)
                is_custom = isinstance(item, CustomToolCall)
                arguments = custom_arguments(item.input) if is_custom else item.arguments
                self._calls.append(ToolCall(item.call_id, name, arguments))
            case HostedCall():
                self._calls.append(ToolCall(item.call_id, item.name, item.arguments))
            case FunctionCallOutput() | CustomToolCallOutput() | HostedOutput():
                self.end_turn()
                parts = item.output
                content = _joined([InputText(parts)] if isinstance(parts, str) else parts)
                self.messages.append(
                    ChatMessage(
                        "tool",
                        content.text,
                        tool_call_id=item.call_id or None,
                        pictures=content.pictures,
                        documents=content.documents,
                    )
                )
            case CompactionItem():
                self.end_turn()
                # Content that another server has encrypted cannot be read, and is skipped.
                if (summary := unseal(item.encrypted_content)) is not None:
                    self.messages.append(ChatMessage("user", f"{SUMMARY}\n{summary}"))
            case MessageItem():
                self.end_turn()
                content = _joined(item.content)
                self.messages.append(
                    ChatMessage(
                        ROLES[item.role],
                        content.text,
                        pictures=content.pictures,
                        documents=content.documents,
                    )
                )

    def _begin_turn(self) -> None:
        """Start another message if the current one has its text or its calls already."""
        if self._text is not None or self._calls:
            self.end_turn()

    def end_turn(self) -> None:
        """Add the model's message, if there is one."""
        if self._text is not None or self._calls or self._reasoning_text:
            self.messages.append(
                ChatMessage(
                    "assistant",
                    self._text or "",
                    reasoning=self._reasoning_text,
                    tool_calls=self._calls,
                )
            )
        self._reasoning_text, self._text, self._calls = "", None, []


def reasoning_text_of(item: ReasoningItem) -> str:
    """The reasoning of an item: its content, else the encoded content, else the summary."""
    if item.content is not msgspec.UNSET:
        return "\n".join(part.text for part in item.content)
    sealed = item.encrypted_content
    text = unseal(sealed if isinstance(sealed, str) else None)
    return text if text is not None else "\n".join(part.text for part in item.summary)


def _joined(parts: Sequence[InputPart]) -> MessageContent:
    content = MessageContent()
    for part in parts:
        if isinstance(part, InputImage):
            content.add_picture(read_picture(part.image_url, "input"))
        elif isinstance(part, InputFile):
            content.add_document(part.filename, document_bytes(part.file_data, "input"))
        else:
            content.add_text(part.text)
    return content
