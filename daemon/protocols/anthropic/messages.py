"""Conversations as Anthropic's clients send them, in content blocks, and as templates get them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.conversation import ChatMessage, ToolCall

from ...errors import InvalidBody
from ...http.bodies import parse
from ..picture_parts import MessageContent, document_bytes
from .image_block import Image, Unreadable, picture_of

Identifier = Annotated[str, Meta(min_length=1, max_length=512)]


class Text(msgspec.Struct):
    """Text."""

    text: str


class Thinking(msgspec.Struct):
    """Reasoning of an earlier answer; its signature is ignored."""

    thinking: str


class ToolUse(msgspec.Struct):
    """A call that the model made; `input` is an object."""

    id: Identifier
    name: Identifier
    input: msgspec.Raw


class ToolResult(msgspec.Struct):
    """The result of a call: text, or blocks."""

    tool_use_id: Identifier
    content: str | list[msgspec.Raw] | None = None
    is_error: bool | None = None


class DocumentSource(msgspec.Struct):
    """The source of a document: `data` of the type text or base64 (a PDF), or `content`."""

    type: str
    data: str | None = None
    content: str | list[msgspec.Raw] | None = None


class Document(msgspec.Struct):
    """A document: text, or a PDF, of which the text is read."""

    source: DocumentSource
    title: str | None = None
    context: str | None = None


class SearchResult(msgspec.Struct):
    """A passage that a search found."""

    source: str
    title: str
    content: list[Text]


class Compaction(msgspec.Struct):
    """A summary of the conversation before."""

    content: str | None = None


class ToolReference(msgspec.Struct):
    """The name of a tool that a search for tools found."""

    tool_name: str


Content = str | list[msgspec.Raw]
Block = (
    Text
    | Image
    | Thinking
    | ToolUse
    | ToolResult
    | Document
    | SearchResult
    | Compaction
    | ToolReference
)


class _Kind(msgspec.Struct):
    type: str


_KINDS: Mapping[str, type[Block]] = MappingProxyType(
    {
        "text": Text,
        "image": Image,
        "thinking": Thinking,
        "tool_use": ToolUse,
        "tool_result": ToolResult,
        "document": Document,
        "search_result": SearchResult,
        "compaction": Compaction,
        "tool_reference": ToolReference,
    }
)

# Blocks that Anthropic's servers produced, or that only they can read.
_OF_THE_SERVER = re.compile(
    r"redacted_thinking|container_upload|mid_conv_system|fallback|(?:server|mcp)_tool_use"
    r"|tool_(?:addition|removal)|browser_state|\w+_tool_result"
)
_UNREADABLE = frozenset({"audio", "video", "file"})


def read_block(raw: msgspec.Raw, place: str) -> Block | None:
    """The block, or None for one of use only to Anthropic's servers.

    Raises `InvalidBody`, and `Unreadable` for sound and files.
    """
    kind = parse(bytes(raw), _Kind, place).type
    if kind in _KINDS:
        return parse(bytes(raw), _KINDS[kind], place)
    if kind in _UNREADABLE:
        raise Unreadable(
            f"'{place}' is of type '{kind}', and models here read text and pictures only.",
            hint="Send text or an image instead; sound and files are not supported yet.",
            param=place,
        )
    if _OF_THE_SERVER.fullmatch(kind):
        return None
    raise InvalidBody(
        f"'{place}.type' is {kind[:40]!r}.",
        hint="It must be text, image, thinking, tool_use, tool_result, document or search_result.",
        param=f"{place}.type",
    )


def read_blocks(content: Content, place: str) -> Iterator[tuple[str, Block | None]]:
    """Yield each block of a content with its place; a content that is text is one block.

    Raises what `read_block` raises.
    """
    if isinstance(content, str):
        yield place, Text(content)
        return
    for number, raw in enumerate(content):
        at = f"{place}[{number}]"
        yield at, read_block(raw, at)


def document_text(document: Document, place: str) -> str:
    """The text of a document with its title; raises `InvalidBody` and `Unreadable`."""
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


def plain_text(content: Content, place: str) -> str:
    """The text of a content that may hold nothing else; raises `InvalidBody`."""
    return "\n".join(_plain_texts(content, place))


def _plain_texts(content: Content, place: str) -> Iterator[str]:
    for at, block in read_blocks(content, place):
        if isinstance(block, Text):
            yield block.text
        elif block is not None:
            raise InvalidBody(f"'{at}' must be text.", param=at)


def block_text(block: Text | Document | SearchResult | Compaction, place: str) -> str:
    """The text of a block; raises `InvalidBody` and `Unreadable`."""
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
    """The unchanged JSON text of an object; raises `InvalidBody` for anything else."""
    text = bytes(raw).decode().strip()
    if not text.startswith("{"):
        raise InvalidBody(f"'{param}' must be an object.", param=param)
    return text


LEFT_OUT = "[Something that this model cannot read was left out here.]"


# Claude Code attributes requests in the first line of a prompt: a name and several `key=value;`,
# in some a checksum of the request, which would make every prompt differ from its first token on.
_ATTRIBUTION = re.compile(r"x-anthropic-billing-header:(?:[ \t]*[A-Za-z0-9_]+=[^;\n]*;)+[ \t]*\n*")


class MessageParam(msgspec.Struct):
    """One message: text, or content blocks."""

    role: Literal["user", "assistant", "system"]
    content: Content


Messages = Annotated[list[MessageParam], Meta(min_length=1)]


def chat_messages(system: Content | None, messages: list[MessageParam]) -> list[ChatMessage]:
    """The conversation for a template; raises `InvalidBody` and `UnsupportedField`."""
    said: list[ChatMessage] = []
    if system is not None and (text := _system_text(system)):
        said.append(ChatMessage("system", text))
    names: dict[str, str] = {}
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        match message.role:
            case "assistant":
                said.append(_assistant(message.content, f"{place}.content", names))
            case "user":
                said += _user(message.content, f"{place}.content", names)
            case "system":
                said.append(ChatMessage("system", plain_text(message.content, f"{place}.content")))
    return said


def _system_text(system: Content) -> str:
    texts = (without_attribution(text) for text in _plain_texts(system, "system"))
    return "\n\n".join(filter(None, texts))


def without_attribution(text: str) -> str:
    """The text after an attribution at its beginning."""
    header = _ATTRIBUTION.match(text)
    return text if header is None else text[header.end() :]


def _assistant(content: Content, place: str, names: dict[str, str]) -> ChatMessage:
    """One answer; its texts are put together as they were written, with nothing between them."""
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    for at, block in read_blocks(content, place):
        match block:
            case Thinking(thinking):
                reasoning.append(thinking)
            case ToolUse(call_id, name, arguments):
                names[call_id] = name
                calls.append(ToolCall(call_id, name, json_object(arguments, f"{at}.input")))
            case Text() | Document() | SearchResult() | Compaction():
                texts.append(block_text(block, at))
            case ToolResult():
                raise InvalidBody(f"'{at}': results of tools belong to a user's message.", param=at)
            case Image():
                raise InvalidBody(f"'{at}': pictures belong to a user's message.", param=at)
            case ToolReference() | None:
                pass  # of use only to Anthropic's servers
    return ChatMessage(
        "assistant", "".join(texts), reasoning="\n".join(reasoning), tool_calls=calls
    )


def _user(content: Content, place: str, names: dict[str, str]) -> list[ChatMessage]:
    """A user's text and tool results, each result as a message of its own, in their order."""
    said: list[ChatMessage] = []
    own = MessageContent()
    for at, block in read_blocks(content, place):
        match block:
            case ToolResult():
                said += _as_user(own)
                own = MessageContent()
                said.append(_tool(block, at, names))
            case Image():
                own.add_picture(picture_of(block, at, may_fetch=True))
            case Document() if block.source.type == "base64":
                _add_pdf(own, block, at)
            case Text() | Document() | SearchResult() | Compaction():
                own.add_text(block_text(block, at))
            case Thinking() | ToolUse():
                raise InvalidBody(
                    f"'{at}': reasoning and calls belong to an assistant's message.", param=at
                )
            case ToolReference() | None:
                pass  # of use only to Anthropic's servers
    said += _as_user(own)
    # An empty message is still a turn, which templates count.
    return said or [ChatMessage("user", "")]


def _as_user(content: MessageContent) -> list[ChatMessage]:
    if not content:
        return []
    pictures, documents = content.pictures, content.documents
    return [ChatMessage("user", content.text, pictures=pictures, documents=documents)]


def _add_pdf(content: MessageContent, document: Document, place: str) -> None:
    data = document_bytes(document.source.data, f"{place}.source.data")
    content.add_document(document.title or "document.pdf", data)
    if document.context:
        content.add_text(document.context)


def _tool(result: ToolResult, place: str, names: dict[str, str]) -> ChatMessage:
    content = _result(result.content or "", f"{place}.content")
    text, pictures, documents = content.text, content.pictures, content.documents
    # Templates cannot mark a result as a failure; many tools do so in its text.
    if result.is_error and not text.lstrip().casefold().startswith(("error", "<tool_use_error")):
        mark = "Error: "
        text = mark + text
        pictures = [msgspec.structs.replace(p, at=p.at + len(mark)) for p in pictures]
        documents = [msgspec.structs.replace(d, at=d.at + len(mark)) for d in documents]
    return ChatMessage(
        "tool",
        text,
        name=names.get(result.tool_use_id),
        tool_call_id=result.tool_use_id,
        pictures=pictures,
        documents=documents,
    )


def _add_result_picture(found: MessageContent, image: Image, place: str) -> None:
    try:
        found.add_picture(picture_of(image, place, may_fetch=False))
    except InvalidBody:
        found.add_text(LEFT_OUT)


def _result(content: Content, place: str) -> MessageContent:
    """The content of a result, with a note for each part that is neither text nor a picture.

    Refusing such a part would end the conversation, in which it is part of every later request.
    """
    found = MessageContent()
    if isinstance(content, str):
        found.add_text(content)
        return found
    for number, raw in enumerate(content):
        at = f"{place}[{number}]"
        try:
            match read_block(raw, at):
                case Document() as pdf if pdf.source.type == "base64":
                    _add_pdf(found, pdf, at)
                case Text() | Document() | SearchResult() | Compaction() as block:
                    found.add_text(block_text(block, at))
                case Image() as image:
                    _add_result_picture(found, image, at)
                case ToolReference(name):
                    found.add_text(f"There is the tool {name}.")
                case Thinking() | ToolUse() | ToolResult():
                    raise InvalidBody(f"'{at}' cannot be part of a result.", param=at)
                case None:
                    found.add_text(LEFT_OUT)
        except Unreadable:
            found.add_text(LEFT_OUT)
    return found
