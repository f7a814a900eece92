"""Every command of the chat, once: keys, slash commands, palette and help are made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_SLASH = re.compile(r"/([a-z]+\+?)(?:\s+(.*))?\Z", re.DOTALL)

Group = Literal["Chat", "History", "Models", "Context", "Reading", "Privacy", "Program"]


@dataclass(frozen=True, slots=True)
class Command:
    """An action with its default key and its slash name, either of which may be missing.

    `name` is also what keys are bound to in the file of keys. `palette` is False for a command that
    makes sense only with its key. A shared command is implemented once for screen and plain chat,
    by the function of its name in `<group>_commands.py`; others belong to a front end.
    """

    name: str
    title: str
    help: str
    group: Group
    key: str | None = None
    slash: str | None = None
    argument: str | None = None
    palette: bool = True
    is_shared: bool = True


COMMANDS: tuple[Command, ...] = (
    Command(
        "stop",
        "Stop",
        "Stop the answer and keep what is there",
        "Chat",
        "escape",
        "stop",
        is_shared=False,
    ),
    Command("new", "New chat", "Start over with an empty chat", "Chat", "ctrl+n", "new"),
    Command(
        "temp", "Temporary chat", "A chat that is never written down", "Chat", "ctrl+t", "temp"
    ),
    Command("again", "Answer again", "Another answer beside the last one", "Chat", "f5", "again"),
    Command("continue", "Go on", "Have a broken-off answer continued", "Chat", slash="continue"),
    Command("edit", "Edit", "Change the last prompt, as a new branch", "Chat", slash="edit"),
    Command("branch", "Branch", "Go on from here in a new chat", "Chat", slash="branch"),
    Command("rewind", "Rewind", "Choose a prompt to go back to", "Chat", slash="rewind"),
    Command("previous", "Previous answer", "The sibling before", "Chat", "alt+left", "previous"),
    Command("next", "Next answer", "The sibling behind", "Chat", "alt+right", "next"),
    Command(
        "system", "System prompt", "Say how the model is to be", "Chat", None, "system", "TEXT"
    ),
    Command(
        "sampling", "Sampling", "Temperature and its kin", "Chat", None, "sampling", "NAME=VALUE"
    ),
    Command(
        "think",
        "Thinking",
        "How much to think before answering",
        "Chat",
        None,
        "think",
        "off|on|low|medium|high",
    ),
    Command(
        "template", "Prompt templates", "Insert a saved prompt", "Chat", None, "template", "NAME"
    ),
    Command(
        "attach", "Attach", "Send a file along", "Chat", None, "attach", "FILE", is_shared=False
    ),
    Command(
        "paste", "Paste", "Insert the clipboard's text", "Chat", None, "paste", is_shared=False
    ),
    Command(
        "editor",
        "External editor",
        "Write the draft in $EDITOR",
        "Chat",
        "ctrl+x",
        "editor",
        is_shared=False,
    ),
    Command(
        "search", "Search chats", "In all chats, as you type", "History", "ctrl+r", "search", "TEXT"
    ),
    Command("find", "Find", "In this chat", "History", "ctrl+f", "find", "TEXT"),
    Command("open", "Open chat", "Chats, newest first", "History", "ctrl+g", "open"),
    Command("rename", "Rename", "Give the chat a title", "History", None, "rename", "TITLE"),
    Command("folder", "Folder", "Put the chat into a folder", "History", None, "folder", "NAME"),
    Command("keep", "Pin chat", "Keep the chat at the top of the list", "History", None, "keep"),
    Command(
        "export", "Export", "Write the chat to a file", "History", None, "export", "md|json|html"
    ),
    Command(
        "import", "Import", "Take over chats of other programs", "History", None, "import", "FILE"
    ),
    Command("delete", "Delete chat", "For good, after asking", "History", None, "delete"),
    Command(
        "encrypt", "Encrypt history", "Lock the chats with a passphrase", "History", None, "encrypt"
    ),
    Command("model", "Models", "Choose or download a model", "Models", "ctrl+o", "model", "NAME"),
    Command("pull", "Pull", "Download a model", "Models", None, "pull", "NAME", is_shared=False),
    Command("unload", "Unload", "Give the model's memory back", "Models", None, "unload"),
    Command(
        "ctx", "Context", "Load the model with another context", "Models", None, "ctx", "TOKENS"
    ),
    Command(
        "compare",
        "Compare",
        "Two models side by side",
        "Models",
        None,
        "compare",
        "NAME",
        is_shared=False,
    ),
    Command(
        "compact", "Compact", "Sum up what was said earlier", "Context", "f6", "compact", "FOCUS"
    ),
    Command(
        "compact_ask",
        "Compact, then ask",
        "Sum up, then send the question",
        "Context",
        None,
        "compact+",
        "QUESTION",
    ),
    Command("undo", "Undo compaction", "Send the originals again", "Context", "f7", "undo"),
    Command("summary", "Summary", "Read, edit or redo the summary", "Context", None, "summary"),
    Command(
        "trim",
        "Trim",
        "Leave out old attachments and long texts, without a model",
        "Context",
        None,
        "trim",
    ),
    Command("pin", "Pin message", "Keep it word for word when compacting", "Context", None, "pin"),
    Command("pins", "Pins", "What is kept word for word", "Context", None, "pins"),
    Command("context", "Context table", "What takes how many tokens", "Context", None, "context"),
    Command(
        "gauges",
        "Gauges",
        "Memory, cache, speed: beside, whole screen, off",
        "Context",
        "f4",
        "gauges",
        is_shared=False,
    ),
    Command(
        "kv",
        "Page map",
        "What is in which page of the KV cache",
        "Context",
        None,
        "kv",
        is_shared=False,
    ),
    Command("stats", "Statistics", "Figures of the last answer", "Context", None, "stats"),
    Command("copy", "Copy answer", "Copy the last answer", "Reading", "ctrl+y", "copy"),
    Command(
        "block_up", "Block up", "Walk the blocks of the chat", "Reading", "alt+up", is_shared=False
    ),
    Command(
        "block_down",
        "Block down",
        "Walk the blocks of the chat",
        "Reading",
        "alt+down",
        is_shared=False,
    ),
    Command(
        "fold", "Fold", "Fold thoughts and long blocks", "Reading", None, "fold", is_shared=False
    ),
    Command(
        "page_up", "Page up", "Read further up", "Reading", "pageup", palette=False, is_shared=False
    ),
    Command(
        "page_down",
        "Page down",
        "Read further down",
        "Reading",
        "pagedown",
        palette=False,
        is_shared=False,
    ),
    Command(
        "end",
        "Go to the end",
        "Follow the answer again",
        "Reading",
        "ctrl+end",
        "end",
        is_shared=False,
    ),
    Command(
        "route",
        "Route",
        "Where messages may go: auto, local, ask",
        "Privacy",
        "shift+tab",
        "route",
        "auto|local|ask|NAME",
    ),
    Command("why", "Why this route", "What decided where the message goes", "Privacy", None, "why"),
    Command(
        "redact",
        "Preview redaction",
        "What would leave, and what would not",
        "Privacy",
        None,
        "redact",
    ),
    Command("sent", "What was sent", "Everything that left this machine", "Privacy", None, "sent"),
    Command(
        "theme", "Theme", "Change the colours", "Program", None, "theme", "NAME", is_shared=False
    ),
    Command(
        "settings",
        "Settings",
        "What can be set, and where",
        "Program",
        "f2",
        "settings",
        is_shared=False,
    ),
    Command(
        "keys",
        "Keys",
        "Which key does what, and how to change it",
        "Program",
        None,
        "keys",
        is_shared=False,
    ),
    Command("doctor", "Doctor", "The terminal, the machine, the daemon", "Program", None, "doctor"),
    Command(
        "help",
        "Help",
        "Keys and commands for where you are",
        "Program",
        "f1",
        "help",
        is_shared=False,
    ),
    Command(
        "interrupt",
        "Copy, stop or quit",
        "Copy the selection, else stop; twice quits",
        "Program",
        "ctrl+c",
        palette=False,
        is_shared=False,
    ),
    Command(
        "suspend",
        "Suspend",
        "Back to the shell; fg comes back",
        "Program",
        "ctrl+z",
        palette=False,
        is_shared=False,
    ),
    Command(
        "quit",
        "Quit",
        "Leave; answers and downloads go on in the daemon",
        "Program",
        "ctrl+q",
        "quit",
        is_shared=False,
    ),
)


def parse_slash(text: str) -> tuple[str, str] | None:
    """Name and argument when `text` has the form of a slash command, else None."""
    match = _SLASH.match(text.strip())
    return None if match is None else (match[1], (match[2] or "").strip())


def find_slash(name: str) -> Command | None:
    """The command with this slash name."""
    return next((command for command in COMMANDS if command.slash == name), None)


def command_table() -> str:
    """All commands as a table in Markdown, for the documentation."""
    rows = ["| key | command | does |", "|---|---|---|"]
    for command in COMMANDS:
        key = f"`{command.key}`" if command.key else ""
        argument = f" {command.argument}" if command.argument else ""
        slash = f"`/{command.slash}{argument}`".replace("|", "\\|") if command.slash else ""
        rows.append(f"| {key} | {slash} | {command.help} |")
    return "\n".join(rows) + "\n"
