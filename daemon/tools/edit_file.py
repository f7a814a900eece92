"""The tool that edits a file: an exact replacement, or a new file, shown as a diff."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable
from pathlib import PurePath
from typing import Annotated

import msgspec
from msgspec import Meta

from ..client.tool_types import ToolInfo
from ..terminal.unsafe_characters import escaped_in_json
from .edit_copies import EditCopies, FileChange
from .project_folder import MOST_BYTES, ProjectFolder
from .tool import (
    ConsentTerms,
    PlannedCall,
    ToolFailed,
    ToolOutcome,
    one_line,
    parameters_of,
    read_arguments,
)

_MOST_OF_DIFF = 200_000


class EditArguments(msgspec.Struct, frozen=True):
    """Arguments of `edit_file`."""

    path: Annotated[str, Meta(description="File, relative to the folder.")]
    new_text: Annotated[str, Meta(description="Text that takes the place of old_text.")]
    old_text: Annotated[
        str,
        Meta(description="Exact text of the file, found once in it. Leave it out for a new file."),
    ] = ""


class EditFile:
    """Replaces a text that occurs once in a file, or creates a file."""

    def __init__(self, folder: ProjectFolder, copies: EditCopies) -> None:
        self._folder = folder
        self._copies = copies

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        return ToolInfo(
            "edit_file",
            "Replace an exact text in a file of the folder, or create a file.",
            parameters_of(EditArguments),
            "edit",
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the edit and its diff."""
        asked = read_arguments(arguments, EditArguments)
        place = await asyncio.to_thread(self._folder.locate_writable, asked.path)
        before = await asyncio.to_thread(self._folder.read_if_exists, place)
        change = FileChange(before, _edited(place, before, asked))
        if len(change.after) > MOST_BYTES:
            raise ToolFailed(f"{place} would have more than {MOST_BYTES} bytes.")
        diff = await asyncio.to_thread(_diff, place, change)
        verb = "Create" if before is None else "Edit"
        return PlannedCall(
            lambda: asyncio.to_thread(self._apply, call_id, place, change, _counts(diff)),
            ConsentTerms(
                effect="edit",
                title=one_line(f"{verb} {place}"),
                scope=f"edit files in {self._folder.root}",
                preview=diff,
                preview_format="diff",
            ),
        )

    def _apply(self, call_id: str, place: PurePath, change: FileChange, counts: str) -> ToolOutcome:
        if self._folder.read_if_exists(place) != change.before:
            raise ToolFailed(f"{place} has changed meanwhile. Read it, and edit it again.")
        self._copies.keep(call_id, self._folder, place, change)
        self._folder.write(place, change.after)
        done = "created" if change.before is None else "edited"
        return ToolOutcome(f"{place} was {done}.", f"{done} {place} ({counts})", undoable=True)


def _edited(place: PurePath, before: bytes | None, asked: EditArguments) -> bytes:
    new = asked.new_text.encode()
    if before is None:
        if asked.old_text:
            raise ToolFailed(f"There is no file {place}. Leave out old_text to create it.")
        return new
    if not asked.old_text:
        if before:
            raise ToolFailed(f"{place} exists. Read it, and give the text to replace as old_text.")
        return new
    old = asked.old_text.encode()
    if b"\r\n" in before and b"\r" not in old:
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    found = before.count(old)
    if found != 1:
        raise ToolFailed(
            f"old_text occurs {found} times in {place}. "
            + (
                "Read the file for its exact text."
                if not found
                else "Add lines until it is unique."
            )
        )
    if old == new:
        raise ToolFailed("old_text and new_text are the same.")
    return before.replace(old, new)


def _diff(place: PurePath, change: FileChange) -> str:
    """Return a unified diff in which invisible characters are spelled out."""
    source = "/dev/null" if change.before is None else f"a/{place}"
    before, after = _lines(change.before or b""), _lines(change.after)
    text = "\n".join(difflib.unified_diff(before, after, source, f"b/{place}", lineterm=""))
    if len(text) > _MOST_OF_DIFF:
        raise ToolFailed("The edit is too large to be shown. Make smaller edits.")
    return text


def _counts(diff: str) -> str:
    """Return how many lines a diff adds and removes, such as `+2 -1 lines`."""
    changes = [line[:1] for line in diff.split("\n")[2:]]  # behind the names of the files
    return f"+{changes.count('+')} -{changes.count('-')} lines"


def _lines(content: bytes) -> list[str]:
    lines = escaped_in_json(content.decode("utf-8", "replace")).split("\n")
    if lines[-1]:
        lines[-1] += "\n\\ No newline at end of file"
        return lines
    return lines[:-1]
