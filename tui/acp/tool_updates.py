"""Tool calls as the client shows them: kind, title, place, diff and output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from acp import helpers
from acp.schema import ToolCallLocation, ToolCallProgress, ToolCallStart, ToolKind

from ingle.daemon.client.tool_types import ToolEffect

from ..chats.message import Message, RequestedCall
from ..text.terminal_safe_text import clean, clean_line

KINDS: dict[ToolEffect, ToolKind] = {
    "read": "read",
    "edit": "edit",
    "run": "execute",
    "fetch": "fetch",
    "server": "other",
}
_SEARCHES = ("list_files", "search_files")
_TITLES = {
    "read_file": "Read {path}",
    "list_files": "List files {pattern}",
    "search_files": "Search {pattern}",
    "edit_file": "Edit {path}",
    "write_file": "Write {path}",
    "run_command": "{command}",
    "fetch_page": "Fetch {url}",
}
_MOST_OF_TITLE = 200
MOST_SHOWN = 20_000
"""Characters of a result that the client gets; the model may get more."""


def tool_kind(name: str, effects: Mapping[str, ToolEffect]) -> ToolKind:
    """Return the kind of a tool, given the effects of all tools by name."""
    if name in _SEARCHES:
        return "search"
    effect = effects.get(name)
    return "other" if effect is None else KINDS[effect]


def call_begun(message: Message, kind: ToolKind, folder: str) -> ToolCallStart:
    """Return the update for a call that begins."""
    call = _call(message)
    arguments = _arguments(call)
    return helpers.start_tool_call(
        message.id,
        call_title(call),
        kind=kind,
        status="in_progress",
        locations=_locations(arguments, folder),
        raw_input=arguments,
    )


def call_output(message: Message, text: str) -> ToolCallProgress:
    """Return the update for the output so far."""
    return helpers.update_tool_call(message.id, status="in_progress", content=[_shown(text)])


def call_ended(message: Message, folder: str) -> ToolCallProgress:
    """Return the update for a call that has ended."""
    step = message.facts.step
    assert step is not None
    failed = step.failed or step.declined
    content: list[Any] = list(diff_contents(step.diff, folder)) if not failed else []
    return helpers.update_tool_call(
        message.id,
        status="failed" if failed else "completed",
        content=content or [_shown(message.content)],
    )


def diff_contents(diff: str, folder: str) -> list[Any]:
    """Return a unified diff of one file as pairs of old and new text, one for each hunk."""
    lines = diff.split("\n")
    if len(lines) < 3:
        return []
    is_new = lines[0] == "--- /dev/null"
    path = str(Path(folder) / lines[1].removeprefix("+++ b/"))
    contents: list[Any] = []
    for hunk in "\n".join(lines[2:]).split("\n@@ "):
        marked = [line for line in hunk.split("\n")[1:] if line[:1] in ("+", "-", " ")]
        old = "\n".join(line[1:] for line in marked if line[0] != "+")
        new = "\n".join(line[1:] for line in marked if line[0] != "-")
        contents.append(helpers.tool_diff_content(path, new, None if is_new else old))
    return contents


def call_title(call: RequestedCall) -> str:
    """Return what a call does, in a line."""
    arguments = {name: str(value) for name, value in _arguments(call).items()}
    words = _TITLES.get(call.name, call.name)
    try:
        title = words.format_map({"pattern": "", **arguments})
    except KeyError:  # the model left it out, and the call will fail
        title = call.name
    return clean_line(title).strip()[:_MOST_OF_TITLE] or call.name


def _shown(text: str) -> Any:
    shown = clean(text)
    if len(shown) > MOST_SHOWN:
        shown = f"[{len(shown) - MOST_SHOWN} characters before]\n{shown[-MOST_SHOWN:]}"
    return helpers.tool_content(helpers.text_block(shown))


def _call(message: Message) -> RequestedCall:
    assert message.facts.step is not None
    return message.facts.step.call


def _arguments(call: RequestedCall) -> dict[str, Any]:
    try:
        found: Any = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _locations(arguments: dict[str, Any], folder: str) -> list[ToolCallLocation]:
    path, line = arguments.get("path"), arguments.get("first_line")
    if not isinstance(path, str) or not path.isprintable():
        return []
    place = str(Path(folder) / path)
    return [ToolCallLocation(path=place, line=line if isinstance(line, int) else None)]
