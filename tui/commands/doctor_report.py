"""Facts for a bug report: terminal, clipboard, machine, daemon, model."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.daemon_types import DeviceGauges, MemoryGauges, Status
from ingle.daemon.client.doctor_types import DoctorFindings
from ingle.daemon.client.model_types import LoadedModel

from ..chats.message import Message
from ..settings.chat_folders import ChatFolders
from ..terminal import clipboard
from ..terminal.run_program import run_program
from ..text import number_format
from .chat_session import ChatSession

GLYPHS = "⌂ ☁ ● ○ ▲ ◆ █ ▒ · ▌ ▸ ‹ › │ ╭ ╰ ━ ┄ é 漢"
PATIENCE = 2.0
"""Seconds a program may take to print its version."""
_TERMINAL = ("TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "LANG", "NO_COLOR")

Fact = tuple[str, str]


async def quick_facts(session: ChatSession, size: Fact) -> list[Fact]:
    """All facts except the findings of the daemon's doctor, which take a second."""
    env, state = dict(os.environ), session.state
    daemon, memory = await daemon_facts(session.client)
    return [
        *await asyncio.to_thread(program_facts),
        *await asyncio.to_thread(terminal_facts, env, size),
        *await asyncio.to_thread(clipboard_facts, env),
        *machine_facts(state.devices, memory),
        *daemon,
        *model_facts(state.loaded, state.model_name, speed_of(session.chat.path)),
        *place_facts(session.folders),
    ]


def program_facts() -> list[Fact]:
    """Versions of ingle, Textual, Python and the system; reads the disk."""
    from importlib.metadata import PackageNotFoundError, version

    versions: list[str] = []
    for package in ("ingle", "textual"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} of unknown version")
    python = f"Python {platform.python_version()}"
    return [
        ("versions", " · ".join([*versions, python])),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
    ]


def size_fact(env: Mapping[str, str], width: int, height: int, sync: bool) -> Fact:
    """The size and colours of the terminal."""
    colours = "true colour" if env.get("COLORTERM") in ("truecolor", "24bit") else "256 or fewer"
    return "size", f"{width} × {height} · {colours} · steady frames {'yes' if sync else 'no'}"


def terminal_facts(env: Mapping[str, str], size: Fact) -> list[Fact]:
    """The terminal's environment variables, and multiplexers between it and the chat."""
    said = [f"{name}={env[name]}" for name in _TERMINAL if env.get(name)]
    between: list[str] = []
    if "TMUX" in env:
        version = run_program(["tmux", "-V"], PATIENCE) or b""
        between.append(version.decode(errors="replace").strip() or "tmux")
    if "STY" in env:
        between.append("screen")
    if clipboard.is_remote(env):
        between.append("SSH")
    return [
        ("terminal", " ".join(said) or "not reported"),
        size,
        ("between", ", ".join(between) or "nothing"),
        ("glyphs", f"{GLYPHS} (each one cell, the last two)"),
    ]


def clipboard_facts(env: Mapping[str, str]) -> list[Fact]:
    """The ways to copy, and whether reading works; the clipboard is not changed."""
    names = [program.name for program in clipboard.writers(env)]
    copies = " → ".join([*names, "OSC 52 (the terminal, not confirmed)"])
    readers = [program.name for program in clipboard.readers(env)]
    if not readers:
        reads = "no program can"
    elif clipboard.paste(env) is not None:
        reads = f"works ({readers[0]})"
    else:
        reads = f"gives nothing ({', '.join(readers)})"
    return [("copy", copies), ("paste", reads)]


def machine_facts(devices: Sequence[DeviceGauges], memory: MemoryGauges) -> list[Fact]:
    """Processor, memory and GPUs; `memory` is as reported by the daemon, in bytes."""
    parts = [f"{os.cpu_count() or '?'} cores"]
    if memory.total:
        free = number_format.size(memory.available)
        parts.append(f"{free} of {number_format.size(memory.total)} free")
    facts = [("machine", " · ".join(parts))]
    for device in devices:
        if device.kind == "cpu":
            continue
        total = f" · {number_format.size(device.memory_total)}" if device.memory_total else ""
        facts.append(("GPU", device.name + total))
    return facts


async def daemon_facts(client: AsyncDaemonClient) -> tuple[list[Fact], MemoryGauges]:
    """The daemon's status, and the memory of its machine in bytes."""
    try:
        said = await client.request(Status, "GET", "/ingle/v1/status")
    except ClientError as error:
        return [("daemon", error.message)], MemoryGauges()
    up = number_format.duration(said.uptime)
    facts = [
        ("daemon", f"ingle {said.version} · process {said.pid} · up {up}"),
        ("socket", shown(said.socket or client.endpoint)),
    ]
    if said.address:
        facts.append(("address", said.address))
    return facts, said.memory


async def finding_facts(client: AsyncDaemonClient) -> list[Fact]:
    """Problems and their fixes, as in `ingle doctor`; empty for a daemon without that endpoint."""
    try:
        said = await client.request(DoctorFindings, "GET", "/ingle/v1/doctor")
    except ClientError:
        return []
    facts: list[Fact] = []
    for finding in said.findings:
        facts.append((finding.severity, " ".join((finding.what, finding.mend)).strip()))
        facts += [("", command) for command in finding.commands]
    if said.fine:
        facts.append(("fine", ", ".join(said.fine)))
    return facts


def speed_of(path: Sequence[Message]) -> str:
    """The speed of the last answer of a chat, "" if unknown."""
    answers = (message for message in reversed(path) if message.role == "assistant")
    facts = next((message.facts for message in answers), None)
    if facts is None or facts.speed is None:
        return ""
    parts = [number_format.speed(facts.speed)]
    if facts.first_token is not None:
        parts.append(f"first token after {number_format.duration(facts.first_token)}")
    return " · ".join(parts)


def place_facts(folders: ChatFolders | None) -> list[Fact]:
    """The paths of the interpreter, the history and the settings."""
    facts = [("python", interpreter())]
    if folders is not None:
        facts += [("chats", shown(folders.chats)), ("settings", shown(folders.config))]
    return facts


def model_facts(loaded: LoadedModel | None, name: str | None, last_speed: str) -> list[Fact]:
    """The model of the chat, and the speed of its last answer."""
    if loaded is None:
        return [("model", f"{name or 'none'}, not loaded")]
    parts = [loaded.name, loaded.state, loaded.engine, loaded.device, loaded.kv_type]
    if loaded.context:
        parts.append(f"context {number_format.tokens(loaded.context)}")
    if loaded.error:
        parts.append(loaded.error)
    facts = [("model", " · ".join(part for part in parts if part))]
    if last_speed:
        facts.append(("last answer", last_speed))
    return facts


def shown(path: Path | str) -> str:
    """A path with `~` for the home folder, so that it does not name its owner."""
    text, home = str(path), str(Path.home())
    return f"~{text[len(home) :]}" if text == home or text.startswith(home + os.sep) else text


def report(facts: Sequence[Fact]) -> str:
    """The facts as text to paste into an issue."""
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in facts)


def interpreter() -> str:
    """The path of the Python interpreter."""
    return shown(sys.executable)
