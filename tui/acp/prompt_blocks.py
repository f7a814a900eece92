"""Prompts of a client, in content blocks: text, files, and links to files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)

from ingle.daemon.client.tool_types import ReadEditor

from ..chats.command_refused import CommandRefused
from ..chats.message import Attachment
from ..composing.attachment_reader import UnreadableFile, read_file
from ..composing.file_mentions import shown_path

if TYPE_CHECKING:
    from .client_editor import ClientEditor

PromptBlock = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


async def read_prompt(
    blocks: Sequence[PromptBlock], folder: Path, editor: ClientEditor
) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a prompt and its files; raises `CommandRefused` for what is no text."""
    texts: list[str] = []
    files: list[Attachment] = []
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                texts.append(text)
            case EmbeddedResourceContentBlock(resource=resource):
                name = _name(resource.uri, folder)
                if isinstance(resource, BlobResourceContents):
                    raise _unsupported(name, resource.mime_type or "data that is no text")
                files.append(Attachment(name, resource.text))
                texts.append(name)
            case ResourceContentBlock(uri=uri):
                path = _path(uri)
                if path is None:
                    texts.append(f"[{block.name}]({uri})")
                else:
                    files.append(await _linked(path, folder, editor))
                    texts.append(shown_path(path, folder))
            case ImageContentBlock(mime_type=kind) | AudioContentBlock(mime_type=kind):
                uri = block.uri if isinstance(block, ImageContentBlock) else None
                raise _unsupported(_name(uri, folder) if uri else "The attachment", kind)
    return "".join(texts).strip(), tuple(files)


async def _linked(path: Path, folder: Path, editor: ClientEditor) -> Attachment:
    """Return a file as the editor has it, else from the disk."""
    name = shown_path(path, folder)
    if editor.reads and await asyncio.to_thread(path.is_file):
        answer = await editor.answer(ReadEditor("", str(path)))
        if not answer.problem:
            return Attachment(name, answer.text)
    try:
        return await asyncio.to_thread(read_file, path, name)
    except UnreadableFile as error:
        raise CommandRefused(str(error)) from error


def _path(uri: str) -> Path | None:
    parts = urlsplit(uri)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _name(uri: str, folder: Path) -> str:
    path = _path(uri)
    return uri if path is None else shown_path(path, folder)


def _unsupported(name: str, kind: str) -> CommandRefused:
    return CommandRefused(
        f"{name} ({kind}) was not sent: prompts can have text only.",
        "Leave it out, or describe it in words.",
    )
