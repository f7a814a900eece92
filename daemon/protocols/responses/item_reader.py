"""Items as clients send them, read by their types; what nobody here can use is skipped."""

from __future__ import annotations

import base64
import binascii
from typing import Literal

import msgspec

from ...errors import InvalidBody, UnsupportedField
from ...http.request_body import parse
from .items import (
    CompactionItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    HostedCall,
    HostedOutput,
    InputMessage,
    InputText,
    Item,
    ItemIds,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Refusal,
    SummaryText,
)

TEXT_PARTS = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})
SEALED = "ingle1:"
"""How our own `encrypted_content` begins, once its base64 is taken off."""

OMITTED = "[This part is not text, and the model reads text only.]"


class _Head(msgspec.Struct):
    type: str | None = None
    role: str | None = None
    id: str | None = None


class _Part(msgspec.Struct):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Message(msgspec.Struct):
    role: Literal["user", "system", "developer", "assistant"]
    content: str | list[_Part] | None = None
    id: str | None = None


class _Reasoning(msgspec.Struct):
    id: str | None = None
    summary: list[_Part] | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None


class _FunctionCall(msgspec.Struct):
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    namespace: str | None = None


class _CustomCall(msgspec.Struct):
    call_id: str
    name: str
    input: str
    id: str | None = None
    namespace: str | None = None


class _FunctionOutput(msgspec.Struct):
    output: str | list[_Part]
    call_id: str | None = None
    id: str | None = None


class _CustomOutput(msgspec.Struct):
    call_id: str
    output: str | list[_Part]
    id: str | None = None


class _Compaction(msgspec.Struct):
    encrypted_content: str
    id: str | None = None


class _Hosted(msgspec.Struct):
    id: str | None = None
    call_id: str | None = None
    action: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    operation: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    output: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class ItemReader:
    """Reads items, and gives ids to those that have none."""

    def reference(self, raw: msgspec.Raw, place: str) -> str | None:
        """The id of the item that this one refers to; None where it is an item itself."""
        head = parse(bytes(raw), _Head, place)
        if head.type == "item_reference" or (head.type is None and head.role is None):
            if head.id is None:
                raise InvalidBody(f"'{place}' has neither a type nor a role.", param=place)
            return head.id
        return None

    def read(self, raw: msgspec.Raw, place: str, ids: ItemIds) -> Item | None:
        """The item, or None where nothing can be made of it; raises `InvalidBody`."""
        data = bytes(raw)
        kind = parse(data, _Head, place).type or "message"
        match kind:
            case "message":
                return self._read_message(data, place, ids)
            case "reasoning":
                return _reasoning(parse(data, _Reasoning, place), ids)
            case "function_call" | "custom_tool_call":
                return self._read_call(data, kind, place, ids)
            case "function_call_output":
                done = parse(data, _FunctionOutput, place)
                return FunctionCallOutput(
                    id=done.id or ids.new("fco"),
                    call_id=done.call_id or msgspec.UNSET,
                    output=_output(done.output),
                )
            case "custom_tool_call_output":
                edited = parse(data, _CustomOutput, place)
                return CustomToolCallOutput(
                    id=edited.id or ids.new("ctco"),
                    call_id=edited.call_id,
                    output=_output(edited.output),
                )
            case "compaction":
                found = parse(data, _Compaction, place)
                return CompactionItem(
                    id=found.id or ids.new("cmp"), encrypted_content=found.encrypted_content
                )
            case _:
                return self._read_hosted(data, kind, place, ids)

    def _read_call(self, data: bytes, kind: str, place: str, ids: ItemIds) -> Item:
        if kind == "function_call":
            call = parse(data, _FunctionCall, place)
            return FunctionCall(
                id=call.id or ids.new("fc"),
                status="completed",
                call_id=call.call_id,
                name=call.name,
                arguments=call.arguments,
                namespace=call.namespace or msgspec.UNSET,
            )
        custom = parse(data, _CustomCall, place)
        return CustomToolCall(
            id=custom.id or ids.new("ctc"),
            status="completed",
            call_id=custom.call_id,
            name=custom.name,
            input=custom.input,
            namespace=custom.namespace or msgspec.UNSET,
        )

    def _read_message(self, data: bytes, place: str, ids: ItemIds) -> Item:
        message = parse(data, _Message, place)
        item_id = message.id or ids.new("msg")
        if message.role == "assistant":
            content = message.content
            parts = [_Part("output_text", content)] if isinstance(content, str) else content or []
            return OutputMessage(
                id=item_id,
                status="completed",
                content=[_said(part, f"{place}.content[{j}]") for j, part in enumerate(parts)],
            )
        if message.content is None:
            raise InvalidBody(f"'{place}.content' is missing.", param=f"{place}.content")
        content = message.content
        parts = [_Part("input_text", content)] if isinstance(content, str) else content
        return InputMessage(
            id=item_id,
            role=message.role,
            content=[
                InputText(_text(part, f"{place}.content[{j}]")) for j, part in enumerate(parts)
            ],
        )

    def _read_hosted(self, data: bytes, kind: str, place: str, ids: ItemIds) -> Item | None:
        """A call of a tool like the local shell, or its result: text that the model should see."""
        is_output = kind.endswith("_call_output")
        if not is_output and not kind.endswith("_call"):
            return None
        item = parse(data, _Hosted, place)
        call_id = item.call_id or item.id
        told = [item.output] if is_output else [item.action, item.operation]
        text = next((text for text in map(_json_text, told) if text), None)
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


def seal(thoughts: str) -> str:
    """Thoughts as `encrypted_content`: for the client to bring back, not to read.

    They are coded, not encrypted: they come from the user's own machine and go nowhere else.
    """
    return base64.b64encode((SEALED + thoughts).encode()).decode()


def unseal(content: str | None) -> str | None:
    """The thoughts again; None for what another server has encrypted."""
    if not content:
        return None
    try:
        text = base64.b64decode(content, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return text.removeprefix(SEALED) if text.startswith(SEALED) else None


def _reasoning(item: _Reasoning, ids: ItemIds) -> ReasoningItem:
    content = [ReasoningText(part.text or "") for part in item.content or ()]
    return ReasoningItem(
        id=item.id or ids.new("rs"),
        summary=[SummaryText(part.text or "") for part in item.summary or ()],
        content=content or msgspec.UNSET,
        encrypted_content=item.encrypted_content or msgspec.UNSET,
    )


def _output(output: str | list[_Part]) -> str | list[InputText]:
    """What a tool returned; an image in it cannot be seen, which is no reason to end the work."""
    if isinstance(output, str):
        return output
    return [InputText(part.text if part.text is not None else OMITTED) for part in output]


def _said(part: _Part, place: str) -> OutputText | Refusal:
    if part.type == "refusal":
        return Refusal(part.refusal or "")
    return OutputText(text=_text(part, place))


def _text(part: _Part, place: str) -> str:
    if part.type not in TEXT_PARTS:
        raise UnsupportedField(
            f"'{place}' is of type {part.type[:40]!r}, and the model reads text only.",
            hint="Send text parts; images, sound and files are not supported yet.",
            param=place,
        )
    if part.text is None:
        raise InvalidBody(f"'{place}.text' is missing.", param=f"{place}.text")
    return part.text


def _json_text(raw: msgspec.Raw) -> str:
    """A string's inside, else the JSON as it came; "" for nothing."""
    text = bytes(raw).decode()
    if text.startswith('"'):
        return msgspec.json.decode(text, type=str)
    return "" if text == "null" else text


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(text))
