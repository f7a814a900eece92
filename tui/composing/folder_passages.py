"""Passages of a folder's files that fit a prompt, found by the daemon, as attachments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.document_types import PROMPT_PASSAGES, FoundPassages

from ..chats.command_refused import CommandRefused
from ..chats.message import Attachment
from ..privacy.chat_route import route_to
from .file_mentions import find_mentions, resolve, shown_path

_LEAST_WORDS = 3
"""A prompt with fewer is about the folder rather than its files."""


async def search_folder(
    client: AsyncDaemonClient, folder: Path, question: str, wait: float
) -> FoundPassages:
    """Return the best passages that fit into a prompt.

    Files that changed are read first, for `wait` seconds at most. Raises `CommandRefused` if the
    daemon is on another machine, and `ClientError`.
    """
    if route_to(client.endpoint).kind != "local":
        raise CommandRefused(
            "The daemon is on another machine, and cannot read the folders of this one.",
            "Attach the files themselves: @name.",
        )
    found = await client.search_documents(str(folder), question, PROMPT_PASSAGES, wait)
    return found.for_prompt()


def as_attachments(found: FoundPassages, folder: Path, cwd: Path) -> list[Attachment]:
    """Return the passages as attachments, named by file and lines as seen from `cwd`."""
    shown = shown_path(folder, cwd).rstrip("/")
    prefix = f"{shown}/" if shown not in ("", ".") else ""
    return [Attachment(prefix + passage.place, passage.text) for passage in found.passages]


async def add_passages(
    client: AsyncDaemonClient, text: str, attachments: Sequence[Attachment], cwd: Path
) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the attachments, with passages behind each folder's listing, and problems."""
    folders = [each for each in attachments if each.name.endswith("/") and not each.picture]
    question = _without_mentions(text)
    if not folders or len(question.split()) < _LEAST_WORDS:
        return tuple(attachments), []
    added: list[Attachment] = []
    problems: list[str] = []
    for listing in folders:
        folder = resolve(listing.name, cwd).resolve()
        try:
            found = await search_folder(client, folder, question, 5.0)
            added += as_attachments(found, folder, cwd)
        except (ClientError, CommandRefused) as error:
            problems.append(error.message)
    return (*attachments, *added), problems


def _without_mentions(text: str) -> str:
    for mention in reversed(find_mentions(text)):
        text = text[: mention.start] + text[mention.end :]
    return text.strip()
