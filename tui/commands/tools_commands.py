"""Commands of tools: on and off, MCP servers, a command whose output goes into the prompt."""

from __future__ import annotations

from asyncio import CancelledError
from pathlib import Path

import msgspec

from ingle.daemon.client.tool_types import ServerStatus

from ..chats.message import Message
from ..text import number_format
from ..text.terminal_safe_text import clean_line
from ..tools.mcp_file import FILE, add_entry, entry_of, remove_entry, server_names
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
    """List the MCP servers, add or remove one: `add NAME COMMAND|URL`, `remove NAME`."""
    verb, _, rest = argument.partition(" ")
    name, _, words = rest.strip().partition(" ")
    if verb in ("", "list") and not name:
        return await _listed_servers(session)
    if verb == "add" and words.strip():
        return await _add_server(session, name, words.strip())
    if verb == "remove" and name and not words:
        return _remove_server(session, name)
    raise CommandRefused("/mcp takes nothing, add NAME COMMAND, add NAME URL, or remove NAME.")


async def _listed_servers(session: ChatSession) -> Done | Facts:
    await session.tools.prepare()
    running = {server.name: _state(server) for server in session.tools.servers}
    kept = dict.fromkeys(_kept_servers(session), "not started: /tools on starts it")
    if rows := [(clean_line(name), words) for name, words in (kept | running).items()]:
        return Facts({"MCP servers": rows})
    return Done("There is no MCP server. /mcp add NAME COMMAND adds one.")


async def _add_server(session: ChatSession, name: str, words: str) -> Done:
    known = {server.name for server in session.tools.servers if server.state == "ready"}
    if name in known.union(_kept_servers(session)):
        raise CommandRefused(
            f"There is a server {name} already.", f"/mcp remove {name} removes it."
        )
    entry = entry_of(words)
    session.front.progress(f"Starting {clean_line(name)}")
    try:
        status = await session.tools.add_server(name, entry)
    except CancelledError:
        session.tools.remove_server(name)
        raise
    if status.state != "ready":
        raise CommandRefused(f"{name} was not added. {clean_line(status.message)}")
    if session.folders is not None:
        add_entry(session.folders.config / FILE, name, entry)
    tail = "" if session.chat.settings.tools else " /tools on lets the model use them."
    return Done(f"{name} is added: {_count(status)}.{tail}", "state")


def _remove_server(session: ChatSession, name: str) -> Done:
    if session.folders is not None and name in _kept_servers(session):
        remove_entry(session.folders.config / FILE, name)
    elif name in {server.name for server in session.tools.servers}:
        raise CommandRefused(
            f"{name} is not in your own {FILE}.", f"Remove it from the {FILE} of the folder."
        )
    else:
        raise CommandRefused(f"There is no server {name}.", "/mcp lists them.")
    session.tools.remove_server(name)
    return Done(f"{name} is removed.", "state")


def _kept_servers(session: ChatSession) -> list[str]:
    """Return the names of the servers that the user has added."""
    return [] if session.folders is None else server_names(session.folders.config / FILE)


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
    session.front.progress(f"Running {clean_line(command)}")
    result = await session.tools.run_command(command, lambda text: None)
    session.front.insert_output(command, result.text)
    return Done(clean_line(result.summary), is_warning=result.failed)


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
