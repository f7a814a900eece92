"""Anthropic's tools that the client runs, and whose schemas clients do not send."""

from __future__ import annotations

from typing import Any

import msgspec

from ingle.backends.base.conversation import Tool

from .types import InputTool

_NEW_INSERT = "20250728"
"""From this version on, the text editor's insertion takes `insert_text`, before it `new_str`."""
_LAST_UNDO = "20250124"

_PATH = {"type": "string", "description": "Absolute path of a file or folder."}
_LINES = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "For view: first and last line, from 1; a last line of -1 is the file's end.",
}
_POINT = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "x and y in pixels from the left and upper edges.",
}
_FIRST_ACTIONS = (
    *("key", "type", "mouse_move", "left_click", "left_click_drag", "right_click"),
    *("middle_click", "double_click", "screenshot", "cursor_position"),
)
_LATER_ACTIONS = (
    *("left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click"),
)


def client_tool(given: InputTool, name: str) -> Tool:
    """The tool of a type that `is_client_tool`, as the model sees it."""
    kind, _, version = (given.type or "").rpartition("_")
    match kind:
        case "bash":
            description, properties, required = _bash()
        case "text_editor":
            description, properties, required = _text_editor(version)
        case "memory":
            description, properties, required = _memory()
        case _:
            description, properties, required = _computer(given, version)
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return Tool(name, description, msgspec.json.encode(schema).decode(), bool(given.strict))


_Definition = tuple[str, dict[str, Any], list[str]]


def _bash() -> _Definition:
    properties = {
        "command": _text("The command to run. Required unless the shell is restarted."),
        "restart": {"type": "boolean", "description": "True restarts the shell."},
    }
    return "Run commands in a bash shell that keeps its state between calls.", properties, []


def _text_editor(version: str) -> _Definition:
    commands = ["view", "create", "str_replace", "insert"]
    if version <= _LAST_UNDO:
        commands.append("undo_edit")
    properties = {
        "command": _one_of(commands, "What to do."),
        "path": _PATH,
        "file_text": _text("For create: the content of the file."),
        "old_str": _text("For str_replace: the text to replace, which occurs exactly once."),
        "new_str": _text("For str_replace: the text to put there."),
        "insert_line": _whole("For insert: the line after which to insert; 0 is the beginning."),
        "view_range": _LINES,
    }
    if version >= _NEW_INSERT:
        properties["insert_text"] = _text("For insert: the text to insert.")
    else:
        properties["new_str"] = _text("For str_replace and insert: the new text.")
    return "View, create and edit text files.", properties, ["command", "path"]


def _memory() -> _Definition:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    properties = {
        "command": _one_of(commands, "What to do."),
        "path": _text("For every command but rename: a path below /memories."),
        "file_text": _text("For create: the content of the file."),
        "old_str": _text("For str_replace: the text to replace, which occurs exactly once."),
        "new_str": _text("For str_replace: the text to put there."),
        "insert_line": _whole("For insert: the line at which to insert; 0 is the beginning."),
        "insert_text": _text("For insert: the text to insert."),
        "view_range": _LINES,
        "old_path": _text("For rename: the path until now."),
        "new_path": _text("For rename: the new path."),
    }
    description = (
        "Read and write notes in files below /memories, which are kept between conversations. "
        "View /memories before anything else."
    )
    return description, properties, ["command"]


def _computer(given: InputTool, version: str) -> _Definition:
    is_first = version == "20241022"
    actions = [*_FIRST_ACTIONS, *(() if is_first else _LATER_ACTIONS)]
    properties: dict[str, Any] = {
        "action": _one_of(actions, "What to do."),
        "coordinate": _POINT,
        "text": _text("For type, key and hold_key: the text, or keys such as ctrl+s."),
    }
    if not is_first:
        properties |= {
            "start_coordinate": {**_POINT, "description": "For left_click_drag: where it begins."},
            "scroll_direction": _one_of(["up", "down", "left", "right"], "For scroll."),
            "scroll_amount": _whole("For scroll: how many clicks of the wheel."),
            "duration": {"type": "number", "description": "For hold_key and wait: seconds."},
        }
    if given.enable_zoom:
        actions.append("zoom")
        properties["region"] = {
            **_POINT,
            "minItems": 4,
            "maxItems": 4,
            "description": "For zoom: left, upper, right and lower edge in pixels.",
        }
    screen = ""
    if given.display_width_px is not None and given.display_height_px is not None:
        screen = f" It is {given.display_width_px} by {given.display_height_px} pixels large."
    return f"Use the mouse, the keyboard and the screen.{screen}", properties, ["action"]


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def _one_of(values: list[str], description: str) -> dict[str, Any]:
    return {"type": "string", "enum": values, "description": description}
