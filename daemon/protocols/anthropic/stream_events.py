"""The events of Anthropic's streams; each is named by its type."""

from __future__ import annotations

from typing import Literal

import msgspec

from .types import Message, OutputBlock, StopReason, Usage


class MessageStart(msgspec.Struct, frozen=True, tag_field="type", tag="message_start"):
    """The first one: a message without content."""

    message: Message


class ContentBlockStart(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_start"):
    """The block number `index` begins, empty."""

    index: int
    content_block: OutputBlock


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="text_delta"):
    """More text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag_field="type", tag="thinking_delta"):
    """More of a thought."""

    thinking: str


class SignatureDelta(msgspec.Struct, frozen=True, tag_field="type", tag="signature_delta"):
    """What ends a thought."""

    signature: str


class InputJSONDelta(msgspec.Struct, frozen=True, tag_field="type", tag="input_json_delta"):
    """More of the text of a call's input."""

    partial_json: str


class ContentBlockDelta(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_delta"):
    """What is added to the block number `index`."""

    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputJSONDelta


class ContentBlockStop(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_stop"):
    """The block number `index` is complete."""

    index: int


class StopDelta(msgspec.Struct, frozen=True):
    """Why the message ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, tag_field="type", tag="message_delta"):
    """The message is complete, with what it took."""

    delta: StopDelta
    usage: Usage


class MessageStop(msgspec.Struct, frozen=True, tag_field="type", tag="message_stop"):
    """The last one."""


class Ping(msgspec.Struct, frozen=True):
    """Fills silences, and the time that the model is loaded."""

    type: Literal["ping"] = "ping"
