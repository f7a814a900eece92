"""Finds completions for the word before the cursor: commands, templates, files, chats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from ...commands.command_table import COMMANDS, Command
from ...composing.completion_trigger import CompletionTrigger
from ...composing.file_mentions import as_mention
from ...composing.prompt_templates import Template
from ...text.fuzzy_match import rank

LIMIT = 40
INDEX_SECONDS = 10.0
"""Age in seconds at which the list of files is rebuilt in the background."""


class CompletionItem(msgspec.Struct, frozen=True):
    """The text shown, and the text inserted in place of the typed word.

    `runs` is a command that enter sends at once; `is_incomplete` is incomplete, such as a folder;
    `exact` equals the typed text. `make` produces the text if that takes time; None from it changes
    nothing.
    """

    label: str
    detail: str = ""
    insert: str = ""
    runs: bool = False
    is_incomplete: bool = False
    exact: bool = False
    make: Callable[[], Awaitable[str | None]] | None = None


class Completer:
    """Completes commands and templates at once, files and chats from a thread.

    `can_run` filters the commands; `find_chats` returns (title, detail, a way to insert its last
    answer) for the typed text.
    """

    def __init__(self, folder: Path, can_run: Callable[[str], bool]) -> None:
        self.folder = folder
        self._can_run = can_run
        self.templates: Sequence[Template] = ()
        self.find_chats: Callable[[str], Awaitable[Sequence[CompletionItem]]] | None = None
        self._index: tuple[str, ...] | None = None
        self._indexed_at = 0.0
        self._indexing: asyncio.Task[tuple[str, ...]] | None = None

    def commands(self, query: str) -> list[CompletionItem]:
        """Return commands whose name begins with the query, then those that contain its letters."""
        known = {
            command.slash: command
            for command in COMMANDS
            if command.slash is not None and not command.within and self._can_run(command.name)
        }
        templates = {t.name: t for t in self.templates if t.name not in known}
        names = (*known, *templates)
        begin = [name for name in names if name.startswith(query)]
        rest = [name for name in rank(query, names, LIMIT) if name not in begin]
        found: list[CompletionItem] = []
        for name in (*begin, *(rest if query else ())):
            if name in templates:
                found.append(_template(templates[name]))
            else:
                found.append(_command(known[name], query))
        return found

    async def files_or_chats(self, trigger: CompletionTrigger) -> list[CompletionItem]:
        """Return completions of a trigger of these kinds, the likeliest first."""
        from ...composing.file_index import list_folder

        if trigger.kind == "chat":
            return list(await self.find_chats(trigger.query)) if self.find_chats else []
        query = trigger.query
        if query.startswith(("~", "/", "../", "./")):
            names: Iterable[str] = await asyncio.to_thread(list_folder, query, self.folder)
            return await asyncio.to_thread(_files, query, query.rpartition("/")[2], names)
        index = await self._files()
        if any(mark in query for mark in "*?["):
            return []
        return await asyncio.to_thread(_files, query, query, index)

    async def _files(self) -> tuple[str, ...]:
        """Return the list of files; an outdated one at once, while a new one is built."""
        from ...composing.file_index import index_files

        if self._indexing is None and time.monotonic() - self._indexed_at > INDEX_SECONDS:
            job = asyncio.to_thread(index_files, self.folder)
            self._indexing = asyncio.get_running_loop().create_task(job)
            self._indexing.add_done_callback(self._indexed)
        if self._index is None:
            assert self._indexing is not None
            return await asyncio.shield(self._indexing)
        return self._index

    def _indexed(self, task: asyncio.Task[tuple[str, ...]]) -> None:
        self._indexing = None
        if not task.cancelled() and task.exception() is None:
            self._index = task.result()
            self._indexed_at = time.monotonic()


def _template(template: Template) -> CompletionItem:
    return CompletionItem(
        f"/{template.name}", f"template · {template.description}", insert=template.text
    )


def _command(command: Command, query: str) -> CompletionItem:
    return CompletionItem(
        command.usage,
        command.help,
        insert=f"/{command.slash} " if command.argument else f"/{command.slash}",
        runs=not command.argument,
        exact=command.slash == query,
    )


def _files(typed: str, query: str, names: Iterable[str]) -> list[CompletionItem]:
    found: list[CompletionItem] = []
    for name in rank(query, names, LIMIT):
        folder = name.endswith("/")
        mention = as_mention(name)
        # An open quote allows typing on below a folder with a space in its name.
        insert = mention.removesuffix('"') if folder else f"{mention} "
        found.append(CompletionItem(name, insert=insert, is_incomplete=folder, exact=name == typed))
    return found
