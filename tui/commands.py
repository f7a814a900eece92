"""Every command of the chat, once: keys, slash commands, palette and help are made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SLASH = re.compile(r"/([a-z]+)(?:\s+(.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """An action with its key and its slash name, either of which may be missing."""

    action: str
    title: str
    help: str
    key: str | None = None
    slash: str | None = None
    argument: str | None = None


COMMANDS = (
    Command("stop", "Stop", "Stop the answer and keep what is there", "escape", "stop"),
    Command("new_chat", "New chat", "Start over with an empty conversation", "ctrl+n", "new"),
    Command("retry", "Ask again", "Ask the last prompt again", "ctrl+r", "retry"),
    Command("copy_answer", "Copy answer", "Copy the last answer", "ctrl+y", "copy"),
    Command(
        "pick_model", "Models", "Choose or download a model", "ctrl+o", "model", argument="NAME"
    ),
    Command("scroll_page(-1)", "Page up", "Read further up", "pageup"),
    Command("scroll_page(1)", "Page down", "Read further down", "pagedown"),
    Command("follow", "Go to the end", "Follow the answer again", "ctrl+end", "end"),
    Command(
        "interrupt", "Copy, stop or quit", "Copy the selection, else stop; twice quits", "ctrl+c"
    ),
    Command("app.show_help", "Help", "Show keys and commands", "f1", "help"),
    Command("app.quit", "Quit", "Leave; a download goes on in the daemon", "ctrl+q", "quit"),
)


def parse_slash(text: str) -> tuple[str, str] | None:
    """Name and argument when `text` has the form of a slash command, else None."""
    match = _SLASH.match(text.strip())
    return None if match is None else (match[1], (match[2] or "").strip())


def find_slash(name: str) -> Command | None:
    """The command with this slash name."""
    return next((command for command in COMMANDS if command.slash == name), None)
