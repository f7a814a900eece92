"""Commands of tools: on and off, MCP servers, a command whose output goes into the prompt."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ingle.daemon.client.tool_types import ServerStatus

from ..chats.message import Message
from ..text import number_format
from ..text.terminal_safe_text import clean_line
from ..tools.mcp_file import add_entry, entry_of
from ..tools.tool_rounds import UNDONE
from .chat_session import ChatSession, keep_settings, refuse_while_answering
from .command_results import CommandRefused, Done, Facts

EFFECTS = {
    "read": "reads",
    "edit": "edits, asks first",
    "run": "runs commands, asks first",
    "fetch": "fetches pages, asks first",
    "server": "asks first",
}


async def tools(session: ChatSession, argument: str) -> Done | Facts:
    """Switch the tools of this chat on or off, or list them."""
    if argument not in ("", "on", "off", "list"):
        raise CommandRefused("/tools takes on, off or list.")
    refuse_while_answering(session)
    settings = session.chat.settings
    if argument in ("on", "off"):
        settings.tools = str(Path.cwd()) if argument == "on" else ""
        keep_settings(session)
        if not settings.tools:
            await session.tools.close()
    await session.tools.prepare()
    if argument == "list":
        return _listed(session)
    if not settings.tools:
        return Done("Tools are off in this chat. /tools on lets the model use them.", "state")
    names = ", ".join(tool.name for tool in session.tools.tools)
    return Done(
        f"Tools are on in {settings.tools}: {names}. Changes and commands ask first.", "state"
    )


def _listed(session: ChatSession) -> Done | Facts:
    found = session.tools.tools
    if not found:
        return Done("Tools are off in this chat, so none is running. /tools on starts them.")
    tables: dict[str, list[tuple[str, str]]] = {}
    for tool in found:
        title = f"MCP server {clean_line(tool.server)}" if tool.server else "Tools"
        does = f"{clean_line(tool.description)} ({EFFECTS[tool.effect]})"
        tables.setdefault(title, []).append((clean_line(tool.name), does))
    return Facts(tables)


async def mcp(session: ChatSession, argument: str) -> Done | Facts:
    """List the MCP servers, or add one: `add NAME COMMAND|URL`."""
    verb, _, rest = argument.partition(" ")
    if not verb or verb == "list":
        await session.tools.prepare()
        rows = [(clean_line(s.name), _state(s)) for s in session.tools.servers]
        if rows:
            return Facts({"MCP servers": rows})
        return Done("No MCP server runs. /mcp add NAME COMMAND adds one; /tools on starts them.")
    name, _, words = rest.strip().partition(" ")
    if verb != "add" or not words.strip():
        raise CommandRefused("/mcp takes nothing, or: add NAME COMMAND, or: add NAME URL.")
    entry = entry_of(words.strip())
    status = await session.tools.add_server(name, entry)
    if status.state != "ready":
        raise CommandRefused(
            f"{name} did not start: {clean_line(status.message)}", "It is not added."
        )
    if session.folders is not None:
        add_entry(session.folders.config / "mcp.json", name, entry)
    tail = "" if session.chat.settings.tools else " /tools on lets the model use them."
    return Done(f"{name} is added: {_count(status)}.{tail}", "state")


def _state(server: ServerStatus) -> str:
    if server.state == "ready":
        return _count(server)
    return f"{server.state}. {clean_line(server.message)}".strip()


def _count(server: ServerStatus) -> str:
    return number_format.counted(server.tools, "tool")


async def shell(session: ChatSession, command: str) -> Done:
    """Run a command in the folder, and put its output into the prompt."""
    if not command:
        raise CommandRefused("Say which command: !COMMAND.")
    if not session.front.is_person:
        raise CommandRefused("Commands are run for a user at a terminal only.")
    session.front.progress(f"Running {command}")
    result = await session.tools.run_command(command, lambda text: None)
    session.front.insert_output(command, result.text)
    return Done(f"{command}: {clean_line(result.summary)}", is_warning=result.failed)


async def undo_edit(session: ChatSession, message: Message) -> Done:
    """Put back what an edit of a tool has replaced; the next request says so."""
    result = await session.tools.undo(message.id)
    if result.failed:
        raise CommandRefused(clean_line(result.summary))
    step = message.facts.step
    assert step is not None
    message.facts = msgspec.structs.replace(
        message.facts, step=msgspec.structs.replace(step, undone=True)
    )
    message.content += UNDONE
    session.history.append(message.id, UNDONE)
    session.history.end_message(message.id, "answered", message.facts)
    return Done(clean_line(result.summary), "path", at=message.id)
