"""The tools that change a file: by an exact replacement or as a whole, shown as a diff."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Annotated

import msgspec
from msgspec import Meta

from ..client.tool_types import ToolInfo
from ..terminal.unsafe_characters import escaped_in_json
from .edit_copies import EditCopies, FileChange
from .project_folder import MOST_BYTES, ProjectFolder
from .text_search import text_lines
from .tool import (
    ConsentTerms,
    PlannedCall,
    ToolFailed,
    ToolOutcome,
    bounded,
    one_line,
    parameters_of,
    read_arguments,
)

_MOST_OF_DIFF = 200_000
_LINES_AROUND = 15
"""Lines that an error shows before and after the place that may be meant."""
_MOST_COMPARED, _MOST_OF_LINE = 2_000, 200
_SHORT = 60
"""Lines of a file that is written whole as easily as edited."""
_WHOLE = "\n[Do not repeat this call: use write_file with all lines of the file.]"


class EditArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of `edit_file`, in the order in which small models write them best."""

    path: Annotated[str, Meta(description="File, relative to the folder.")]
    old_text: Annotated[
        str,
        Meta(description="Lines to replace, copied exactly from the file."),
    ] = ""
    new_text: Annotated[str, Meta(description="Lines that take their place.")]


class WriteArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of `write_file`."""

    path: Annotated[str, Meta(description="File, relative to the folder.")]
    content: Annotated[str, Meta(description="All lines of the file.")]


class EditFile:
    """Replaces a text that occurs once in a file, or creates a file."""

    def __init__(self, folder: ProjectFolder, copies: EditCopies) -> None:
        self._folder = folder
        self._copies = copies

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        # A small model leaves out what it may leave out.
        parameters = parameters_of(EditArguments) | {"required": [*EditArguments.__struct_fields__]}
        return ToolInfo(
            "edit_file",
            "Replace some lines of a file that you have read.",
            parameters,
            "edit",
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the edit and its diff."""
        asked = read_arguments(arguments, EditArguments)
        place = await asyncio.to_thread(self._folder.locate_writable, asked.path)
        before = await asyncio.to_thread(self._folder.read_if_exists, place)
        try:
            change = FileChange(before, _edited(place, before, asked))
        except _NotFound as error:
            # Reading needs no consent, so that the model gets what it would read next.
            raise ToolFailed(f"{error}{self._excerpt(before, asked.old_text)}") from error
        return await _plan(self._folder, self._copies, call_id, place, change)

    def _excerpt(self, before: bytes | None, old: str) -> str:
        """Return the text around the place of the file that is most like `old`."""
        if self._folder.holds_home or not before or b"\0" in before:
            return ""
        lines = text_lines(before)
        first = max(0, _nearest(lines, old) - _LINES_AROUND)
        shown = lines[first : first + 2 * _LINES_AROUND + len(old.split("\n"))]
        text = bounded("\n".join(shown), 4_000)
        # A small model repeats the call that failed.
        other = _WHOLE if len(lines) <= _SHORT else ""
        return f"\nLines {first + 1} to {first + len(shown)} are:\n{text}{other}"


class WriteFile:
    """Writes a file as a whole, which small models do better than a replacement."""

    def __init__(self, folder: ProjectFolder, copies: EditCopies) -> None:
        self._folder = folder
        self._copies = copies

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        return ToolInfo(
            "write_file",
            "Write a whole file: a new one, or a short one that you have read and change.",
            parameters_of(WriteArguments),
            "edit",
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the change and its diff."""
        asked = read_arguments(arguments, WriteArguments)
        place = await asyncio.to_thread(self._folder.locate_writable, asked.path)
        before = await asyncio.to_thread(self._folder.read_if_exists, place)
        content = asked.content.encode()
        if before is not None:
            content = _as_in(before, content)
            if content == before:
                raise ToolFailed(f"{place} has exactly this content already. Nothing was changed.")
        return await _plan(self._folder, self._copies, call_id, place, FileChange(before, content))


def _as_in(before: bytes, content: bytes) -> bytes:
    """Return the content with the line ends of the file, the last one included."""
    if before.endswith(b"\n") and content and not content.endswith(b"\n"):
        content += b"\n"
    if b"\r\n" in before and b"\r" not in content:
        return content.replace(b"\n", b"\r\n")
    return content


async def _plan(
    folder: ProjectFolder, copies: EditCopies, call_id: str, place: PurePath, change: FileChange
) -> PlannedCall:
    """Return the change of a file, with its diff for the user's consent."""
    if len(change.after) > MOST_BYTES:
        raise ToolFailed(f"{place} would have more than {MOST_BYTES} bytes.")
    diff = await asyncio.to_thread(_diff, place, change)

    def apply() -> ToolOutcome:
        if folder.read_if_exists(place) != change.before:
            raise ToolFailed(f"{place} has changed meanwhile. Read it, and edit it again.")
        copies.keep(call_id, folder, place, change)
        folder.write(place, change.after)
        done = "created" if change.before is None else "edited"
        summary = f"{done} {place} ({_counts(diff)})"
        return ToolOutcome(f"{place} was {done}.", summary, undoable=True)

    verb = "Create" if change.before is None else "Edit"
    return PlannedCall(
        lambda: asyncio.to_thread(apply),
        ConsentTerms(
            effect="edit",
            title=one_line(f"{verb} {place}"),
            scope=f"edit files in {folder.root}",
            preview=diff,
            preview_format="diff",
        ),
    )


class _NotFound(ToolFailed):
    """The text to replace is not in the file."""


def _edited(place: PurePath, before: bytes | None, asked: EditArguments) -> bytes:
    new = asked.new_text.encode()
    if before is None:
        if asked.old_text:
            raise ToolFailed(f"There is no file {place}. Create it with write_file.")
        return new
    if not asked.old_text:
        if before:
            raise _NotFound(f"{place} exists. Say which of its lines to replace.")
        return new
    if asked.old_text == asked.new_text:
        raise ToolFailed("Both texts are the same. Nothing was changed.")
    old = asked.old_text.encode()
    if b"\r\n" in before and b"\r" not in old:
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    if (found := before.count(old)) > 1:
        raise ToolFailed(
            f"This text occurs {found} times in {place}. Give more of the lines around it."
        )
    if found:
        return before.replace(old, new)
    edited = edited_loosely(before.decode("utf-8", "replace"), asked.old_text, asked.new_text)
    if edited is None or b"\r" in before:
        raise _NotFound(f"{place} has no such lines. Copy the lines to replace from it.")
    return edited.encode()


def edited_loosely(text: str, old: str, new: str) -> str | None:
    """Replace the lines that are `old` but for their indentation; None unless there is one place.

    `new` is indented as they are.
    """
    wanted = [line.strip() for line in old.strip("\n").split("\n")]
    lines, count = text.split("\n"), len(wanted)
    bare = [line.strip() for line in lines]
    places = [n for n in range(len(lines) - count + 1) if bare[n : n + count] == wanted]
    if len(places) != 1 or not wanted[0] or "\ufffd" in text:
        return None
    place = places[0]
    own, given = _indent(lines[place]), _indent(old.strip("\n"))
    moved = [
        own + line[len(given) :] if line.startswith(given) and line.strip() else line
        for line in new.strip("\n").split("\n")
    ]
    return "\n".join([*lines[:place], *moved, *lines[place + count :]])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _nearest(lines: Sequence[str], old: str) -> int:
    """Return the line that is most like the first line of `old`."""
    first = old.strip().partition("\n")[0].strip()
    alike = difflib.SequenceMatcher(b=first, autojunk=False)
    best, place = 0.0, 0
    for number, line in enumerate(lines[:_MOST_COMPARED] if first else ()):
        alike.set_seq1(line.strip()[:_MOST_OF_LINE])
        if alike.real_quick_ratio() > best and alike.quick_ratio() > best:
            ratio = alike.ratio()
            best, place = (ratio, number) if ratio > best else (best, place)
    return place


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
