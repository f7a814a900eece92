"""The table of chat commands, from which keys, slash commands, palette and help are made."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

_SLASH = re.compile(r"/([a-z]+(?:-[a-z]+)*\+?)(?:\s+(.*))?\Z", re.DOTALL)

Group = Literal[
    "Chat", "Files", "Tools", "History", "Models", "Context", "Reading", "Privacy", "Program"
]

_SHOWN = {"escape": "esc", "left": "←", "right": "→", "up": "↑", "down": "↓"}
_KEY_ONLY = frozenset({"page_up", "page_down", "interrupt", "suspend"})
"""Commands that are run by keys only: neither typed nor in the palette."""
_UNTYPED = _KEY_ONLY | {"block_up", "block_down"}
_SCREEN_ONLY = _UNTYPED | {
    "stop",
    "paste",
    "compare",
    "gauges",
    "kv",
    "watch",
    "fold",
    "end",
    "theme",
    "settings",
    "keys",
}


class Command(msgspec.Struct, frozen=True):
    """An action; the file of keys refers to it by `name`.

    Most commands are implemented once for the screen and the plain chat, by the function of their
    name in `<group>_commands.py`; the others belong to a front end.
    """

    name: str
    title: str
    help: str
    group: Group
    key: str | None = None
    argument: str | None = None
    within: str = ""
    """For a part of another command: how it is typed, such as `compact trim`."""
    also: str = ""
    """How it can be typed as a part of another command, too."""

    @property
    def slash(self) -> str | None:
        """The name typed after the slash; None for a command that has only a key."""
        if self.name in _UNTYPED:
            return None
        return "compact+" if self.name == "compact_ask" else self.name.replace("_", "-")

    @property
    def usage(self) -> str:
        """`/slash ARGUMENT`; "" for a command that has only a key."""
        if self.slash is None:
            return ""
        typed = self.within or self.slash
        return f"/{typed} {self.argument}" if self.argument else f"/{typed}"

    @property
    def is_listed(self) -> bool:
        """Whether lists of commands have it; parts of others only if they have a key."""
        return not self.within or self.key is not None

    @property
    def palette(self) -> bool:
        """Whether the palette lists it."""
        return self.is_listed and self.name not in _KEY_ONLY

    @property
    def is_shared(self) -> bool:
        """Whether it is implemented once for all front ends."""
        return self.name not in _SCREEN_ONLY and self.name != "quit"


COMMANDS: tuple[Command, ...] = (
    Command("stop", "Stop", "Stop the answer and keep what is there", "Chat", "escape"),
    Command("new", "New chat", "Start over with an empty chat", "Chat", "ctrl+n"),
    Command(
        "temp", "Temporary chat", "Start a chat that is never written to disk", "Chat", "ctrl+t"
    ),
    Command(
        "again",
        "Answer again",
        "Generate another answer, also by another model",
        "Chat",
        "f5",
        "MODEL",
    ),
    Command("continue", "Continue", "Continue an interrupted answer", "Chat"),
    Command("edit", "Edit", "Edit the last prompt; the old version stays", "Chat"),
    Command("branch", "Branch", "Continue from here in a new chat", "Chat"),
    Command("rewind", "Rewind", "Choose a prompt to go back to", "Chat"),
    Command(
        "previous",
        "Previous version",
        "Previous version of a prompt or an answer",
        "Chat",
        "alt+left",
    ),
    Command("next", "Next version", "Next version of a prompt or an answer", "Chat", "alt+right"),
    Command("system", "System prompt", "Set the system prompt of this chat", "Chat", None, "TEXT"),
    Command(
        "persona",
        "Personas",
        "Use or save system prompt, model and sampling",
        "Chat",
        None,
        "NAME|save NAME|delete NAME",
    ),
    Command(
        "sampling",
        "Sampling",
        "Temperature and other sampling settings",
        "Chat",
        None,
        "NAME=VALUE",
    ),
    Command(
        "think",
        "Thinking",
        "Set how much the model reasons",
        "Chat",
        None,
        "off|on|low|medium|high",
    ),
    Command("template", "Prompt templates", "Insert a saved prompt", "Chat", None, "NAME"),
    Command("editor", "External editor", "Write the draft in $EDITOR", "Chat", "ctrl+x"),
    Command("attach", "Attach", "Attach a file to the prompt", "Files", None, "FILE"),
    Command(
        "ask_files",
        "Ask files",
        "Ask about the documents of a folder",
        "Files",
        None,
        "FOLDER QUESTION",
    ),
    Command("describe", "Describe", "Have the model describe a picture", "Files", None, "FILE"),
    Command("speak", "Speak", "Dictate into the draft", "Files"),
    Command("say", "Say", "Read the last answer aloud", "Files"),
    Command("paste", "Paste", "Insert the clipboard's text or picture", "Files"),
    Command(
        "tools",
        "Tools",
        "Let the model work in this folder with tools",
        "Tools",
        None,
        "on|off|list",
    ),
    Command(
        "mcp",
        "MCP servers",
        "List, add (by command or URL), remove tool servers",
        "Tools",
        None,
        "add NAME COMMAND|remove NAME",
    ),
    Command(
        "shell",
        "Run a command",
        "Add a command's output to the prompt (also !)",
        "Tools",
        None,
        "COMMAND",
    ),
    Command("search", "Search chats", "Search all chats as you type", "History", "ctrl+r", "TEXT"),
    Command("find", "Find", "Search this chat", "History", "ctrl+f", "TEXT"),
    Command("open", "Open chat", "List the chats, newest first", "History", "ctrl+g"),
    Command("rename", "Rename", "Give the chat a title", "History", None, "TITLE"),
    Command("folder", "Folder", "Put the chat into a folder", "History", None, "NAME"),
    Command("keep", "Pin chat", "Keep the chat at the top of the list", "History"),
    Command("export", "Export", "Write the chat to a file", "History", None, "md|json|html"),
    Command("share", "Share", "Write the chat to one HTML file", "History", None, "FILE"),
    Command("import", "Import", "Import chats of other programs", "History", None, "FILE"),
    Command("delete", "Delete chat", "Delete the chat permanently (asks first)", "History"),
    Command("encrypt", "Encrypt history", "Encrypt the chats with a passphrase", "History"),
    Command("model", "Models", "Choose or download a model", "Models", "ctrl+o", "NAME"),
    Command("pull", "Pull", "Download a model", "Models", None, "NAME"),
    Command("unload", "Unload", "Free the model's memory", "Models"),
    Command(
        "ctx", "Context", "Reload the model with another context length", "Models", None, "TOKENS"
    ),
    Command(
        "compare", "Compare", "Compare with another model, side by side", "Models", None, "NAME"
    ),
    Command("watch", "Requests", "Watch what all programs send to models here", "Models"),
    Command(
        "compact",
        "Compact",
        "Summarise earlier messages",
        "Context",
        "f6",
        "FOCUS|undo|summary|trim|then QUESTION",
    ),
    Command(
        "compact_ask",
        "Compact, then ask",
        "Summarise, then send the question",
        "Context",
        None,
        "QUESTION",
        "compact then",
    ),
    Command(
        "undo",
        "Undo",
        "Undo a tool's edit, or the last compaction",
        "Context",
        "f7",
        also="compact undo",
    ),
    Command(
        "summary",
        "Summary",
        "Read, edit or redo the summary",
        "Context",
        within="compact summary",
    ),
    Command(
        "trim",
        "Trim",
        "Leave out old attachments and long texts, without a model",
        "Context",
        within="compact trim",
    ),
    Command("pin", "Pin message", "Keep a message verbatim; also: list", "Context"),
    Command("pins", "Pinned messages", "Messages kept verbatim", "Context", within="pin list"),
    Command("context", "Context table", "Show the tokens by role and message", "Context"),
    Command(
        "gauges",
        "Gauges",
        "Memory, cache, speed: beside, full screen, off",
        "Context",
        "f4",
    ),
    Command("kv", "Page map", "Show what each page of the KV cache holds", "Context"),
    Command("stats", "Statistics", "Show the figures of the last answer", "Context"),
    Command("copy", "Copy answer", "Copy the last answer", "Reading", "ctrl+y"),
    Command("block_up", "Block up", "Go to the previous block of the chat", "Reading", "alt+up"),
    Command("block_down", "Block down", "Go to the next block of the chat", "Reading", "alt+down"),
    Command("fold", "Fold", "Fold reasoning and long blocks", "Reading"),
    Command("page_up", "Page up", "Scroll up", "Reading", "pageup"),
    Command("page_down", "Page down", "Scroll down", "Reading", "pagedown"),
    Command(
        "end",
        "Go to the end",
        "Go to the newest text, and follow the answer",
        "Reading",
        "ctrl+end",
    ),
    Command(
        "route",
        "Route",
        "Choose where messages may go",
        "Privacy",
        "shift+tab",
        "auto|local|ask|NAME",
    ),
    Command("why", "Why this route", "Show what decided where the message goes", "Privacy"),
    Command("redact", "Preview redaction", "Preview what would leave this machine", "Privacy"),
    Command("sent", "What was sent", "Show everything that left this machine", "Privacy"),
    Command("theme", "Theme", "Change the colours", "Program", None, "NAME"),
    Command("settings", "Settings", "Show and change the settings", "Program", "f2"),
    Command("keys", "Keys", "Show and change the keys", "Program"),
    Command("doctor", "Doctor", "Check the terminal, the machine, the daemon", "Program"),
    Command("help", "Help", "Show the keys and commands for where you are", "Program", "f1"),
    Command(
        "interrupt",
        "Copy, stop or quit",
        "Copy the selection, else stop; twice quits",
        "Program",
        "ctrl+c",
    ),
    Command("suspend", "Suspend", "Return to the shell; fg resumes the chat", "Program", "ctrl+z"),
    Command("quit", "Quit", "Leave; answers and downloads go on", "Program", "ctrl+q"),
)


def parse_slash(text: str) -> tuple[str, str] | None:
    """Name and argument when `text` has the form of a slash command, else None."""
    match = _SLASH.match(text.strip())
    if match is None:
        return None
    name, argument = match[1], (match[2] or "").strip()
    word, _, rest = argument.partition(" ")
    part = next((one for one in COMMANDS if f"{name} {word}" in (one.within, one.also)), None)
    if part is not None and part.slash is not None and (part.argument or not rest):
        return part.slash, rest.strip()
    return name, argument


def find_slash(name: str) -> Command | None:
    """The command with this slash name."""
    return next((command for command in COMMANDS if command.slash == name), None)


def shown_key(key: str) -> str:
    """A key as the screen writes it, such as alt+← for alt+left."""
    *modifiers, name = key.split("+")
    return "+".join([*modifiers, _SHOWN.get(name, name)])


def command_table() -> str:
    """All commands as a table in Markdown, for the documentation."""
    rows = ["| key | command | does |", "|---|---|---|"]
    for command in filter(lambda each: each.is_listed, COMMANDS):
        key = f"`{shown_key(command.key)}`" if command.key else ""
        usage = f"`{command.usage}`".replace("|", "\\|") if command.usage else ""
        rows.append(f"| {key} | {usage} | {command.help} |")
    return "\n".join(rows) + "\n"
