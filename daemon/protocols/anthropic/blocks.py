"""The content blocks of Anthropic's messages, each kind with its own fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta

from ...errors import InvalidBody, UnsupportedField
from ...http.request_body import parse

Identifier = Annotated[str, Meta(min_length=1, max_length=512)]


class Text(msgspec.Struct):
    """Something said."""

    text: str


class Thinking(msgspec.Struct):
    """What the model thought in an earlier answer; its signature is ours, and says nothing."""

    thinking: str


class ToolUse(msgspec.Struct):
    """A call that the model made; `input` is an object."""

    id: Identifier
    name: Identifier
    input: msgspec.Raw


class ToolResult(msgspec.Struct):
    """What a call gave: text, or blocks of it."""

    tool_use_id: Identifier
    content: str | list[msgspec.Raw] | None = None
    is_error: bool | None = None


class DocumentSource(msgspec.Struct):
    """Where the text of a document is: `data` of the type text, or `content`."""

    type: str
    data: str | None = None
    content: str | list[msgspec.Raw] | None = None


class Document(msgspec.Struct):
    """A document; only text is read."""

    source: DocumentSource
    title: str | None = None
    context: str | None = None


class SearchResult(msgspec.Struct):
    """A passage that a search found."""

    source: str
    title: str
    content: list[Text]


class Compaction(msgspec.Struct):
    """A summary of what was said before."""

    content: str | None = None


class ToolReference(msgspec.Struct):
    """The name of a tool that a search for tools found."""

    tool_name: str


Block = (
    Text | Thinking | ToolUse | ToolResult | Document | SearchResult | Compaction | ToolReference
)


class _Kind(msgspec.Struct):
    type: str


_KINDS: Mapping[str, type[Block]] = MappingProxyType(
    {
        "text": Text,
        "thinking": Thinking,
        "tool_use": ToolUse,
        "tool_result": ToolResult,
        "document": Document,
        "search_result": SearchResult,
        "compaction": Compaction,
        "tool_reference": ToolReference,
    }
)

# What Anthropic's own servers did in an earlier answer, or what only they can read.
_OF_THE_SERVER = re.compile(
    r"redacted_thinking|container_upload|mid_conv_system|fallback|(?:server|mcp)_tool_use"
    r"|tool_(?:addition|removal)|browser_state|\w+_tool_result"
)
_UNREADABLE = frozenset({"image", "audio", "video", "file"})


class Unreadable(UnsupportedField):
    """The block is something that a model of text cannot take in."""


def read_block(raw: msgspec.Raw, place: str) -> Block | None:
    """The block, or None for one that only Anthropic's servers have a use for.

    Raises `InvalidBody`, and `Unreadable` for pictures and their like.
    """
    kind = parse(bytes(raw), _Kind, place).type
    if kind in _KINDS:
        return parse(bytes(raw), _KINDS[kind], place)
    if kind in _UNREADABLE:
        raise Unreadable(
            f"'{place}' is of type '{kind}', and the model reads text only.",
            hint="Send text instead; images, sound and files are not supported yet.",
            param=place,
        )
    if _OF_THE_SERVER.fullmatch(kind):
        return None
    raise InvalidBody(
        f"'{place}.type' is {kind[:40]!r}.",
        hint="It must be text, thinking, tool_use, tool_result, document or search_result.",
        param=f"{place}.type",
    )


def document_text(document: Document, place: str) -> str:
    """A document with its title; raises `InvalidBody`, and `Unreadable` where it is no text."""
    source = document.source
    if source.type == "text" and source.data is not None:
        body = source.data
    elif source.type == "content" and source.content is not None:
        body = plain_text(source.content, f"{place}.source.content")
    else:
        raise Unreadable(
            f"'{place}.source' is of type {source.type[:40]!r}, and the model reads text only.",
            hint="Send the document's text, as a source of type 'text'.",
            param=f"{place}.source",
        )
    return "\n".join(part for part in (document.title, document.context, body) if part)


def plain_text(content: str | list[msgspec.Raw], place: str) -> str:
    """The text of a content that may hold nothing else; raises `InvalidBody`."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for number, raw in enumerate(content):
        at = f"{place}[{number}]"
        block = read_block(raw, at)
        if isinstance(block, Text):
            texts.append(block.text)
        elif block is not None:
            raise InvalidBody(f"'{at}' must be text.", param=at)
    return "\n".join(texts)


def block_text(block: Text | Document | SearchResult | Compaction, place: str) -> str:
    """What a block says to the reader; raises `InvalidBody` and `Unreadable`."""
    match block:
        case Text():
            return block.text
        case Document():
            return document_text(block, place)
        case SearchResult():
            return "\n".join([block.title, block.source, *(part.text for part in block.content)])
        case Compaction():
            return block.content or ""


def json_object(raw: msgspec.Raw, param: str) -> str:
    """The JSON text of an object, as it came; raises `InvalidBody` for anything else."""
    text = bytes(raw).decode().strip()
    if not text.startswith("{"):
        raise InvalidBody(f"'{param}' must be an object.", param=param)
    return text
