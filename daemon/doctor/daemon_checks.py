"""Checks of settings, folders, sockets, and other model servers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..client.doctor_types import Diagnostic
from ..terminal.terminal_output import format_bytes
from .system_state import SystemState

_FEWEST_FILES, _FEW_FILES = 128, 512
_WORTH_TELLING = 512 * 2**20
_LEAST_LOCKED = 2**33
_HOW_TO_UNLOAD = {
    "Ollama": "ollama ps   # then: ollama stop MODEL",
    "LM Studio": "lms unload --all",
}


def check_settings(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that the settings can be read."""
    if situation.config_error:
        yield Diagnostic(
            code="settings-wrong",
            severity="broken",
            what=situation.config_error,
            why="No command works until this is fixed.",
            mend=situation.config_hint,
        )


def check_folders(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that every folder is ours, writable, and private if it has to be."""
    for folder in situation.folders:
        path = shlex.quote(folder.path)
        if folder.problem:
            yield Diagnostic(
                code="folder-unsafe",
                severity="broken",
                what=folder.problem,
                why="ingle does not use it: its owner could read your chats.",
                mend=folder.hint,
            )
        elif not folder.writable:
            yield Diagnostic(
                code="folder-not-writable",
                severity="broken",
                what=f"{folder.path} cannot be written.",
                why=f"ingle stores its {_KEPT[folder.use]} there.",
                mend="Make it yours, or set INGLE_HOME to a folder of your own:",
                commands=[f'sudo chown -R "$(id -un)" {path}', f"chmod u+rwx {path}"],
            )
        elif not folder.private:
            yield Diagnostic(
                code="folder-open",
                severity="warning",
                what=f"Other users can read {folder.path}.",
                mend="Restrict it (the daemon does so when it starts):",
                commands=[f"chmod 700 {path}"],
            )


_KEPT = {"config": "settings", "models": "models", "state": "state", "runtime": "socket"}


def check_port(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that the port for editors is free, or the daemon has it."""
    port = situation.port
    if port.number < 0 or not port.taken or port.ours:
        return
    holder = f"{port.program or 'a program'} (pid {port.pid})" if port.pid else "another program"
    yield Diagnostic(
        code="port-taken",
        severity="broken",
        what=f"Port {port.number} is in use by {holder}.",
        why="The chat and ingle's commands work; editors and agents reach that program instead.",
        mend="End that program, or give ingle another port (for good: `port = "
        f"{port.number + 1}` at the top of {situation.config_file or 'config.toml'}), then "
        "`ingle connect` again:",
        commands=[f"export INGLE_PORT={port.number + 1}", "ingle stop"],
    )


def check_daemon(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that the daemon answers, and is the installed version of ingle."""
    daemon, installed = situation.daemon, situation.machine.software.ingle
    if daemon.state == "silent":
        yield Diagnostic(
            code="daemon-silent",
            severity="broken",
            what=daemon.error or "The daemon does not answer.",
            mend=daemon.hint,
        )
    if daemon.state == "running" and installed and daemon.version != installed:
        yield Diagnostic(
            code="daemon-outdated",
            severity="warning",
            what=f"The running daemon is ingle {daemon.version}, but {installed} is installed.",
            mend="End it when no answer is running; the next command starts the new one:",
            commands=["ingle stop"],
        )
    if daemon.socket_moved:
        yield Diagnostic(
            code="home-too-long",
            severity="note",
            what=f"INGLE_HOME is too long for a socket, so the socket is {daemon.socket}.",
            why="Systems limit a socket's path to about 100 bytes. Commands find it all the same.",
        )


def check_limits(situation: SystemState) -> Iterator[Diagnostic]:
    """Check the process limits that the daemon needs."""
    limits = situation.limits
    if limits.open_files is not None and limits.open_files < _FEW_FILES:
        yield Diagnostic(
            code="few-open-files",
            severity="warning" if limits.open_files < _FEWEST_FILES else "note",
            what=f"A program may open only {limits.open_files} files.",
            why="The daemon accepts up to 256 connections, each of which counts as one.",
            mend="Raise it in the shell that starts the daemon:",
            commands=["ulimit -n 4096", "ingle stop"],
        )
    locked = limits.locked_memory
    if situation.wants_locked_memory and locked is not None and locked < _LEAST_LOCKED:
        yield Diagnostic(
            code="little-locked-memory",
            severity="warning",
            what=f"`mlock` is set, but a program may lock only {format_bytes(locked)}.",
            why="Weights beyond that can be swapped out.",
            mend="Raise it in the shell that starts the daemon, or remove `mlock`:",
            commands=["ulimit -l unlimited", "ingle stop"],
        )


def check_neighbours(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that no other program keeps models loaded."""
    for neighbour in situation.neighbours:
        held: list[str] = []
        if (neighbour.gpu_memory or 0) >= _WORTH_TELLING:
            held.append(f"{format_bytes(neighbour.gpu_memory or 0)} of the GPU's memory")
        if neighbour.memory >= _WORTH_TELLING:
            held.append(f"{format_bytes(neighbour.memory)} of memory")
        if not held:
            continue
        command = _HOW_TO_UNLOAD.get(neighbour.program, f"kill {neighbour.pid}")
        yield Diagnostic(
            code="neighbour-holds-memory",
            severity="warning",
            what=f"{neighbour.program} (pid {neighbour.pid}) holds {' and '.join(held)}.",
            why="ingle's models cannot use that memory.",
            mend="Have it unload its models:",
            commands=[command],
        )
