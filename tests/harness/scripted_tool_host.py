"""A scripted tool host: a process that speaks the messages of `daemon/client/tool_types.py`.

Its tools: `read` answers at once, `edit` asks for consent and writes a file, `run` asks, writes
output and waits until it is cancelled if its command is `wait`, `die` ends the process.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import msgspec

from ingle.daemon.client.tool_types import (
    AddServer,
    CallOutput,
    CallResult,
    CallTool,
    CancelCall,
    ConsentRequest,
    DecideCall,
    EditorAnswer,
    HostError,
    RemoveServer,
    ServerStatus,
    StartHost,
    ToHost,
    ToolEffect,
    ToolInfo,
    ToolList,
    UndoEdit,
)

COMMAND = (sys.executable, "-P", str(Path(__file__)))
EFFECTS: dict[str, ToolEffect] = {"read": "read", "edit": "edit", "run": "run", "die": "read"}
DIFF = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-old\n+new\n"


class ScriptedHost:
    """Reads requests from stdin until its end."""

    def __init__(self) -> None:
        self._waiting: dict[str, CallTool] = {}
        self._edited: dict[str, tuple[Path, str]] = {}
        self._servers: list[ServerStatus] = []
        self._consents: dict[str, str] = {}

    def run(self) -> None:
        while header := sys.stdin.buffer.read(4):
            (length,) = struct.unpack("<I", header)
            message = msgspec.msgpack.decode(sys.stdin.buffer.read(length), type=ToHost)
            self._take(message)

    def send(self, message: Any) -> None:
        body = msgspec.msgpack.encode(message)
        sys.stdout.buffer.write(struct.pack("<I", len(body)) + body)
        sys.stdout.buffer.flush()

    def _take(self, message: ToHost) -> None:
        match message:
            case StartHost():
                if Path("broken").exists():
                    self.send(HostError("mcp.json cannot be read. Mend it, then /tools on."))
                    sys.exit(1)
                self._consents = dict(message.consents)
                self._list()
                if Path("servers").exists():
                    title = "Start the MCP server files"
                    self.send(ConsentRequest("server:files", "server", title, "server files"))
            case CallTool():
                self._call(message)
            case DecideCall(id="server:files"):
                state = "stopped" if message.choice == "never" else "ready"
                self._servers.append(ServerStatus("files", state, 1))
                self._list()
            case DecideCall():
                self._decide(self._waiting.pop(message.id), message.choice)
            case CancelCall():
                Path("cancelled").write_text(message.id)
                self._end(message.id, "It was cancelled.", failed=True)
            case UndoEdit():
                path, before = self._edited.pop(message.id)
                path.write_text(before)
                self._end(message.id, "notes.txt is as it was.")
            case EditorAnswer():
                raise AssertionError("it has asked the editor nothing")
            case RemoveServer():
                self._servers = [each for each in self._servers if each.name != message.name]
                self._list()
            case AddServer():
                self._servers.append(ServerStatus(message.name, "ready", 1))
                self._list()

    def _list(self) -> None:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        tools = [
            ToolInfo(name, f"The tool {name}.", schema, effect) for name, effect in EFFECTS.items()
        ]
        self.send(ToolList(tools, self._servers))

    def _call(self, call: CallTool) -> None:
        if call.name == "die":
            print("out of cheese", file=sys.stderr, flush=True)
            os._exit(3)
        effect = EFFECTS.get(call.name)
        if effect is None:
            known = ", ".join(EFFECTS)
            self._end(
                call.id, f"There is no tool {call.name}. The tools are: {known}.", failed=True
            )
        elif effect == "read":
            path = Path(json.loads(call.arguments)["path"])
            self._end(call.id, path.read_text(), f"read {path}")
        elif self._consents.get(effect) is not None:
            self._decide(call, self._consents[effect])
        else:
            self._waiting[call.id] = call
            diff = effect == "edit"
            self.send(
                ConsentRequest(
                    call.id,
                    effect,
                    "Edit notes.txt" if diff else "Run a command",
                    effect,
                    preview=DIFF if diff else call.arguments,
                    preview_format="diff" if diff else "command",
                )
            )

    def _decide(self, call: CallTool, choice: str) -> None:
        if choice != "once":
            self._consents[EFFECTS[call.name]] = choice
        if choice == "never":
            self._end(call.id, "The user declined this call.", "declined", declined=True)
        elif call.name == "edit":
            path = Path("notes.txt")
            self._edited[call.id] = (path, path.read_text())
            path.write_text("new\n")
            self._end(call.id, "notes.txt was changed.", "edited notes.txt", undoable=True)
        else:
            self.send(CallOutput(call.id, "one\n"))
            if "wait" not in call.arguments:
                self._end(call.id, "one\ntwo\n", "exit status 0")

    def _end(self, name: str, text: str, summary: str = "", **how: bool) -> None:
        self.send(CallResult(name, text, summary or text, seconds=0.2, **how))


if __name__ == "__main__":
    ScriptedHost().run()
