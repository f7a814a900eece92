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

    `name` is also what keys are bound to in the file of keys. `palette` is False if a command
    makes sense only with its key. `run` is the module and the function that implement it for
    screen and plain chat; a command without one belongs to the front end.
    """

    name: str
    title: str
    help: str
    group: Group
    key: str | None = None
    slash: str | None = None
    argument: str | None = None
    palette: bool = True
    run: str | None = None


COMMANDS: tuple[Command, ...] = (
    Command("stop", "Stop", "Stop the answer and keep what is there", "Chat", "escape", "stop"),
    Command(
        "new",
        "New chat",
        "Start over with an empty chat",
        "Chat",
        "ctrl+n",
        "new",
        run="chat_commands.new",
    ),
    Command(
        "temp",
        "Temporary chat",
        "A chat that is never written down",
        "Chat",
        "ctrl+t",
        "temp",
        run="chat_commands.temp",
    ),
    Command(
        "again",
        "Answer again",
        "Another answer beside the last one",
        "Chat",
        "f5",
        "again",
        run="chat_commands.again",
    ),
    Command(
        "continue",
        "Go on",
        "Have a broken-off answer continued",
        "Chat",
        slash="continue",
        run="chat_commands.continue_",
    ),
    Command(
        "edit",
        "Edit",
        "Change the last prompt, as a new branch",
        "Chat",
        slash="edit",
        run="chat_commands.edit",
    ),
    Command(
        "branch",
        "Branch",
        "Go on from here in a new chat",
        "Chat",
        slash="branch",
        run="chat_commands.branch",
    ),
    Command(
        "rewind",
        "Rewind",
        "Choose a prompt to go back to",
        "Chat",
        slash="rewind",
        run="chat_commands.rewind",
    ),
    Command(
        "previous",
        "Previous answer",
        "The sibling before",
        "Chat",
        "alt+left",
        "previous",
        run="chat_commands.previous",
    ),
    Command(
        "next",
        "Next answer",
        "The sibling behind",
        "Chat",
        "alt+right",
        "next",
        run="chat_commands.next_",
    ),
    Command(
        "system",
        "System prompt",
        "Say how the model is to be",
        "Chat",
        None,
        "system",
        "TEXT",
        run="chat_commands.system",
    ),
    Command(
        "sampling",
        "Sampling",
        "Temperature and its kin",
        "Chat",
        None,
        "sampling",
        "NAME=VALUE",
        run="chat_commands.sampling",
    ),
    Command(
        "think",
        "Thinking",
        "How much to think before answering",
        "Chat",
        None,
        "think",
        "off|on|low|medium|high",
        run="chat_commands.think",
    ),
    Command(
        "template",
        "Prompt templates",
        "Insert a saved prompt",
        "Chat",
        None,
        "template",
        "NAME",
        run="chat_commands.template",
    ),
    Command("attach", "Attach", "Send a file along", "Chat", None, "attach", "FILE"),
    Command("paste", "Paste", "Insert the clipboard's text", "Chat", None, "paste"),
    Command("editor", "External editor", "Write the draft in $EDITOR", "Chat", "ctrl+x", "editor"),
    Command(
        "search",
        "Search chats",
        "In all chats, as you type",
        "History",
        "ctrl+r",
        "search",
        "TEXT",
        run="history_commands.search",
    ),
    Command(
        "find",
        "Find",
        "In this chat",
        "History",
        "ctrl+f",
        "find",
        "TEXT",
        run="history_commands.find",
    ),
    Command(
        "open",
        "Open chat",
        "Chats, newest first",
        "History",
        "ctrl+g",
        "open",
        run="history_commands.open_",
    ),
    Command(
        "rename",
        "Rename",
        "Give the chat a title",
        "History",
        None,
        "rename",
        "TITLE",
        run="history_commands.rename",
    ),
    Command(
        "folder",
        "Folder",
        "Put the chat into a folder",
        "History",
        None,
        "folder",
        "NAME",
        run="history_commands.folder",
    ),
    Command(
        "keep",
        "Pin chat",
        "Keep the chat at the top of the list",
        "History",
        None,
        "keep",
        run="history_commands.keep",
    ),
    Command(
        "export",
        "Export",
        "Write the chat to a file",
        "History",
        None,
        "export",
        "md|json|html",
        run="history_commands.export",
    ),
    Command(
        "import",
        "Import",
        "Take over chats of other programs",
        "History",
        None,
        "import",
        "FILE",
        run="history_commands.import_",
    ),
    Command(
        "delete",
        "Delete chat",
        "For good, after asking",
        "History",
        None,
        "delete",
        run="history_commands.delete",
    ),
    Command(
        "encrypt",
        "Encrypt history",
        "Lock the chats with a passphrase",
        "History",
        None,
        "encrypt",
        run="history_commands.encrypt",
    ),
    Command(
        "model",
        "Models",
        "Choose or download a model",
        "Models",
        "ctrl+o",
        "model",
        "NAME",
        run="model_commands.model",
    ),
    Command("pull", "Pull", "Download a model", "Models", None, "pull", "NAME"),
    Command(
        "unload",
        "Unload",
        "Give the model's memory back",
        "Models",
        None,
        "unload",
        run="model_commands.unload",
    ),
    Command(
        "ctx",
        "Context",
        "Load the model with another context",
        "Models",
        None,
        "ctx",
        "TOKENS",
        run="model_commands.ctx",
    ),
    Command("compare", "Compare", "Two models side by side", "Models", None, "compare", "NAME"),
    Command(
        "compact",
        "Compact",
        "Sum up what was said earlier",
        "Context",
        "f6",
        "compact",
        "FOCUS",
        run="context_commands.compact",
    ),
    Command(
        "compact_ask",
        "Compact, then ask",
        "Sum up, then send the question",
        "Context",
        None,
        "compact+",
        "QUESTION",
        run="context_commands.compact_ask",
    ),
    Command(
        "undo",
        "Undo compaction",
        "Send the originals again",
        "Context",
        "f7",
        "undo",
        run="context_commands.undo",
    ),
    Command(
        "summary",
        "Summary",
        "Read, edit or redo the summary",
        "Context",
        None,
        "summary",
        run="context_commands.summary",
    ),
    Command(
        "trim",
        "Trim",
        "Leave out old attachments and long texts, without a model",
        "Context",
        None,
        "trim",
        run="context_commands.trim",
    ),
    Command(
        "pin",
        "Pin message",
        "Keep it word for word when compacting",
        "Context",
        None,
        "pin",
        run="context_commands.pin",
    ),
    Command(
        "pins",
        "Pins",
        "What is kept word for word",
        "Context",
        None,
        "pins",
        run="context_commands.pins",
    ),
    Command(
        "context",
        "Context table",
        "What takes how many tokens",
        "Context",
        None,
        "context",
        run="context_commands.context",
    ),
    Command(
        "gauges",
        "Gauges",
        "Memory, cache, speed: beside, whole screen, off",
        "Context",
        "f4",
        "gauges",
    ),
    Command("kv", "Page map", "What is in which page of the KV cache", "Context", None, "kv"),
    Command(
        "stats",
        "Statistics",
        "Figures of the last answer",
        "Context",
        None,
        "stats",
        run="context_commands.stats",
    ),
    Command(
        "copy",
        "Copy answer",
        "Copy the last answer",
        "Reading",
        "ctrl+y",
        "copy",
        run="chat_commands.copy",
    ),
    Command("block_up", "Block up", "Walk the blocks of the chat", "Reading", "alt+up"),
    Command("block_down", "Block down", "Walk the blocks of the chat", "Reading", "alt+down"),
    Command("fold", "Fold", "Fold thoughts and long blocks", "Reading", None, "fold"),
    Command("page_up", "Page up", "Read further up", "Reading", "pageup", palette=False),
    Command("page_down", "Page down", "Read further down", "Reading", "pagedown", palette=False),
    Command("end", "Go to the end", "Follow the answer again", "Reading", "ctrl+end", "end"),
    Command(
        "route",
        "Route",
        "Where messages may go: auto, local, ask",
        "Privacy",
        "shift+tab",
        "route",
        "auto|local|ask|NAME",
        run="privacy_commands.route",
    ),
    Command(
        "why",
        "Why this route",
        "What decided where the message goes",
        "Privacy",
        None,
        "why",
        run="privacy_commands.why",
    ),
    Command(
        "redact",
        "Preview redaction",
        "What would leave, and what would not",
        "Privacy",
        None,
        "redact",
        run="privacy_commands.redact",
    ),
    Command(
        "sent",
        "What was sent",
        "Everything that left this machine",
        "Privacy",
        None,
        "sent",
        run="privacy_commands.sent",
    ),
    Command("theme", "Theme", "Change the colours", "Program", None, "theme", "NAME"),
    Command("settings", "Settings", "What can be set, and where", "Program", "f2", "settings"),
    Command("keys", "Keys", "Which key does what, and how to change it", "Program", None, "keys"),
    Command(
        "doctor",
        "Doctor",
        "The terminal, the machine, the daemon",
        "Program",
        None,
        "doctor",
        run="program_commands.doctor",
    ),
    Command("help", "Help", "Keys and commands for where you are", "Program", "f1", "help"),
    Command(
        "interrupt",
        "Copy, stop or quit",
        "Copy the selection, else stop; twice quits",
        "Program",
        "ctrl+c",
        palette=False,
    ),
    Command(
        "suspend", "Suspend", "Back to the shell; fg comes back", "Program", "ctrl+z", palette=False
    ),
    Command(
        "quit",
        "Quit",
        "Leave; answers and downloads go on in the daemon",
        "Program",
        "ctrl+q",
        "quit",
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
