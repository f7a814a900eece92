"""Tools that read the folder: a file, the names of files, a search in them."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta

from ingle.backends.base.child_process import child_environment

from ..client.tool_types import ToolInfo
from ..documents.folder_files import list_files
from .project_folder import ProjectFolder
from .text_search import MOST_MATCHES, FoundLines, SearchTask, text_lines
from .tool import (
    MOST_CHARACTERS,
    ConsentTerms,
    PlannedCall,
    ToolFailed,
    ToolOutcome,
    bounded,
    counted,
    one_line,
    parameters_of,
    read_arguments,
)

_MOST_LINES = 800
_MOST_NAMES = 500
_SEARCH_SECONDS = 10.0
_SEARCH = "ingle.daemon.tools.text_search"


class ReadArguments(msgspec.Struct, frozen=True):
    """Arguments of `read_file`."""

    path: Annotated[str, Meta(description="File, relative to the folder.")]
    first_line: Annotated[int, Meta(description="From 1.", ge=1)] = 1
    last_line: Annotated[int, Meta(description="Included; 0: as far as fits.", ge=0)] = 0


class ReadFile:
    """Reads lines of a file."""

    def __init__(self, folder: ProjectFolder) -> None:
        self._folder = folder

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        return ToolInfo(
            "read_file",
            "Read a text file of the folder, or a range of its lines.",
            parameters_of(ReadArguments),
            "read",
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the reading."""
        asked = read_arguments(arguments, ReadArguments)
        place = await asyncio.to_thread(self._folder.locate, asked.path)

        async def run() -> ToolOutcome:
            content = await asyncio.to_thread(self._folder.read, place)
            if b"\0" in content[:8192]:
                raise ToolFailed(f"{place} is not a text file.")
            lines = text_lines(content)
            last = min(
                asked.last_line or len(lines), asked.first_line + _MOST_LINES - 1, len(lines)
            )
            text = "\n".join(lines[asked.first_line - 1 : last])[:MOST_CHARACTERS]
            shown = text.count("\n") + 1 if text else 0
            last = asked.first_line + shown - 1
            if asked.first_line > 1 or last < len(lines):
                text += f"\n[lines {asked.first_line} to {last} of {len(lines)}]"
            return ToolOutcome(text or "[empty]", f"{place} ({counted(shown, 'line')})")

        return _reading(self._folder, run, f"Read {place}")


class ListArguments(msgspec.Struct, frozen=True):
    """Arguments of `list_files`."""

    pattern: Annotated[
        str, Meta(description="Part of a name or a glob such as *.py; left out: all files.")
    ] = ""


class ListFiles:
    """Lists names of files."""

    def __init__(self, folder: ProjectFolder) -> None:
        self._folder = folder

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        return ToolInfo(
            "list_files",
            "List or find files of the folder by name, without those that git ignores.",
            parameters_of(ListArguments),
            "read",
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the listing."""
        asked = read_arguments(arguments, ListArguments)

        async def run() -> ToolOutcome:
            names = matching(await list_files(self._folder.root), asked.pattern)
            lines = [one_line(name, 400) for name in names[:_MOST_NAMES]]
            if len(names) > _MOST_NAMES:
                lines.append(f"[{len(names) - _MOST_NAMES} more; give a pattern]")
            return ToolOutcome(
                bounded("\n".join(lines) or "[no file]"), counted(len(names), "file")
            )

        return _reading(self._folder, run, f"List files {asked.pattern}".strip())


class SearchArguments(msgspec.Struct, frozen=True):
    """Arguments of `search_files`."""

    pattern: Annotated[str, Meta(description="Regular expression, of one line.")]
    files: Annotated[str, Meta(description="Only files with this in their name, or glob.")] = ""


class SearchFiles:
    """Searches lines of files, in a process that can be ended."""

    def __init__(self, folder: ProjectFolder) -> None:
        self._folder = folder

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        return ToolInfo(
            "search_files",
            "Find lines in the folder's files, as file:line: text.",
            parameters_of(SearchArguments),
            "read",
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the search."""
        asked = read_arguments(arguments, SearchArguments)

        async def run() -> ToolOutcome:
            names = matching(await list_files(self._folder.root), asked.files)
            found = await _search(SearchTask(str(self._folder.root), asked.pattern, names))
            if found.error:
                raise ToolFailed(found.error)
            text = "\n".join(found.lines)
            if len(found.lines) == MOST_MATCHES:
                text += "\n[there may be more; search for something rarer]"
            summary = f"{counted(len(found.lines), 'line')} for {one_line(asked.pattern, 60)}"
            return ToolOutcome(bounded(text or "[nothing found]"), summary)

        return _reading(self._folder, run, f"Search for {one_line(asked.pattern, 80)}")


def matching(names: list[str], pattern: str) -> list[str]:
    """Return the names that contain the pattern or, as a glob, match it."""
    if not pattern:
        return names
    if not any(mark in pattern for mark in "*?["):
        return [name for name in names if pattern.lower() in name.lower()]
    globs = (pattern, f"*/{pattern}")
    return [name for name in names if any(fnmatch.fnmatch(name, glob) for glob in globs)]


def _reading(
    folder: ProjectFolder, run: Callable[[], Awaitable[ToolOutcome]], title: str
) -> PlannedCall:
    """Ask only where the folder is the home folder, which has more than a project's files."""
    if not folder.holds_home:
        return PlannedCall(run)
    scope = f"read files in {folder.root}"
    return PlannedCall(run, ConsentTerms(effect="read", title=one_line(title), scope=scope))


async def _search(task: SearchTask) -> FoundLines:
    """Run the search in a process of its own: some patterns take for ever."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-X", "utf8", "-m", _SEARCH),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(os.environ),
        start_new_session=True,
    )
    try:
        asked = msgspec.msgpack.encode(task)
        answer, _ = await asyncio.wait_for(process.communicate(asked), _SEARCH_SECONDS)
        return msgspec.msgpack.decode(answer, type=FoundLines)
    except TimeoutError:
        return FoundLines([], "The search took too long. Use a simpler pattern, or fewer files.")
    except msgspec.MsgspecError:
        return FoundLines([], "The search failed. Use a simpler pattern.")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
