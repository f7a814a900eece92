"""Messages between a client and its tool host: msgpack frames on the host's stdin and stdout.

A client starts one host in its own folder. The host owns the tools, the MCP servers and the
consents; a client presents what the host asks. No HTTP request reaches a tool host.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ToolEffect = Literal["read", "edit", "run", "fetch", "server"]
"""What a call does: reads files of the folder, changes them, runs a command, fetches a page, or is
a call of an MCP server."""

ConsentChoice = Literal["once", "always", "never"]
"""`always` and `never` hold for calls with the same `ConsentRequest.scope` in this chat."""

PreviewFormat = Literal["text", "diff", "command"]
ServerState = Literal["starting", "ready", "failed", "stopped"]


class ToolInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it; `parameters` is a JSON Schema of an object.

    `server` is the name of its MCP server, empty for a tool of ingle's own.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: ToolEffect
    server: str = ""


class ServerStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """An MCP server of `mcp.json`; `message` says why it failed and what to do."""

    name: str
    state: ServerState
    tools: int = 0
    message: str = ""


# From the client


class StartHost(msgspec.Struct, frozen=True, tag="start", omit_defaults=True):
    """The first message. `consents` are the choices of this chat by scope, from an earlier host.

    `state_folder` is where copies of edited files go, so that edits can be undone.
    """

    folder: str
    state_folder: str
    mcp_files: list[str] = []
    consents: dict[str, ConsentChoice] = {}
    private: bool = False
    socket: str = ""
    """The daemon's address, for the ledger of what leaves the machine."""
    servers: dict[str, dict[str, Any]] = {}
    """MCP servers that are started without a question, by name, as entries of `mcp.json`."""
    editor_reads: bool = False
    """Whether the client answers `ReadEditor`."""
    editor_writes: bool = False
    """Whether the client answers `WriteEditor`."""


class CallTool(msgspec.Struct, frozen=True, tag="call"):
    """Run a tool; `arguments` is the JSON text that the model wrote, valid or not."""

    id: str
    name: str
    arguments: str


class DecideCall(msgspec.Struct, frozen=True, tag="decide"):
    """The user's answer to a `ConsentRequest`."""

    id: str
    choice: ConsentChoice


class CancelCall(msgspec.Struct, frozen=True, tag="cancel"):
    """End a call: its process is killed, and its result says so."""

    id: str


class UndoEdit(msgspec.Struct, frozen=True, tag="undo"):
    """Put back what the edit of a call has replaced; answered by a result with the same id."""

    id: str


class AddServer(msgspec.Struct, frozen=True, tag="add_server"):
    """Start one more MCP server, as an entry of `mcp.json`: a command, or a URL."""

    name: str
    entry: dict[str, Any]


class RemoveServer(msgspec.Struct, frozen=True, tag="remove_server"):
    """End an MCP server, and forget it."""

    name: str


class EditorAnswer(msgspec.Struct, frozen=True, tag="editor_answer"):
    """The answer to `ReadEditor` or `WriteEditor`; a `problem` says why it could not be done."""

    id: str
    text: str = ""
    problem: str = ""


ToHost = (
    StartHost
    | CallTool
    | DecideCall
    | CancelCall
    | UndoEdit
    | AddServer
    | RemoveServer
    | EditorAnswer
)


# From the host


class ToolList(msgspec.Struct, frozen=True, tag="tools"):
    """All tools and servers, sent after the start and after each change."""

    tools: list[ToolInfo]
    servers: list[ServerStatus] = []


class ConsentRequest(msgspec.Struct, frozen=True, tag="consent", omit_defaults=True):
    """A call that needs the user's consent, or, with an id that is no call's, the start of a server
    that the folder's own `mcp.json` names.

    `title` is one line: what would be done. `preview` is what to look at, such as a diff. `leaves`
    says what would leave this machine and where to, empty if nothing does; `confined` whether the
    call cannot do more than that. `scope` names what `always` would allow.
    """

    id: str
    effect: ToolEffect
    title: str
    scope: str
    preview: str = ""
    preview_format: PreviewFormat = "text"
    leaves: str = ""
    confined: bool = True


class CallOutput(msgspec.Struct, frozen=True, tag="output"):
    """A piece of output of a running call."""

    id: str
    text: str


class CallResult(msgspec.Struct, frozen=True, tag="result", omit_defaults=True):
    """The end of a call: `text` is what the model gets, bounded and valid Unicode.

    `summary` is one line for the user. With `undoable`, `UndoEdit` takes the change back.
    """

    id: str
    text: str
    summary: str
    failed: bool = False
    declined: bool = False
    undoable: bool = False
    seconds: float = 0.0


class ReadEditor(msgspec.Struct, frozen=True, tag="read_editor"):
    """Asks for the text of a file as the client's editor has it, saved or not."""

    id: str
    path: str


class WriteEditor(msgspec.Struct, frozen=True, tag="write_editor"):
    """Asks the client's editor to replace the text of a file and to save it."""

    id: str
    path: str
    text: str


class HostError(msgspec.Struct, frozen=True, tag="error"):
    """The host cannot start or go on; what happened and what to do."""

    message: str


EditorRequest = ReadEditor | WriteEditor
FromHost = ToolList | ConsentRequest | CallOutput | CallResult | EditorRequest | HostError
