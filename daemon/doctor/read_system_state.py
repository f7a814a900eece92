"""Reads the state of ingle on this machine, with or without a daemon."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from ingle.backends.hardware.read_machine import read_machine

from ..settings.config import Config
from ..settings.paths import FolderUnusable, Paths, UnsafeFolder
from .other_servers import find_neighbours
from .system_state import (
    ClockState,
    DaemonState,
    FolderState,
    FolderUse,
    PortState,
    ProcessLimits,
    SystemState,
)

_PATIENCE = 0.5
"""Seconds that a local listener may take to accept."""


def read_system_state(
    config: Config,
    daemon: DaemonState,
    *,
    environ: Mapping[str, str] = os.environ,
    error: tuple[str, str] = ("", ""),
    anew: bool = False,
) -> SystemState:
    """Read the system state; blocks for up to a second if nothing is cached.

    `error` and its hint are for settings that cannot be read, for which `config` stands in.
    """
    paths = config.paths
    machine = read_machine(paths.models, paths.machine_facts, anew=anew)
    own = _family(daemon.pid)
    return SystemState(
        machine=machine,
        daemon=daemon,
        folders=read_folders(paths),
        port=read_port(config.host, config.port, daemon),
        neighbours=find_neighbours(machine.gpus, own),
        limits=read_limits(),
        clock=ClockState(now=time.time(), installed=Path(__file__).stat().st_mtime),
        own_pids=own,
        visible_gpus=environ.get("CUDA_VISIBLE_DEVICES"),
        wants_locked_memory=config.mlock,
        config_file=str(paths.config_file),
        config_error=error[0],
        config_hint=error[1],
    )


def read_folders(paths: Paths) -> list[FolderState]:
    """Read the four folders, of which those of the socket must be private."""
    problem, hint = "", ""
    try:
        paths.check_private()
    except (UnsafeFolder, FolderUnusable) as error:
        problem, hint = error.message, error.hint
    uses: tuple[tuple[FolderUse, Path], ...] = (
        ("config", paths.config),
        ("models", paths.models),
        ("state", paths.state),
        ("runtime", paths.runtime),
    )
    return [
        _folder(use, path, *((problem, hint) if use == "runtime" else ("", "")))
        for use, path in uses
    ]


def _folder(use: FolderUse, path: Path, problem: str, hint: str) -> FolderState:
    existing = path
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    private = True
    if use in ("runtime", "state") and existing == path and sys.platform != "win32":
        # For a link only `problem` matters.
        private = path.is_symlink() or not path.stat().st_mode & 0o077
    return FolderState(
        use=use,
        path=str(path),
        exists=existing == path,
        writable=existing.is_dir() and os.access(existing, os.W_OK | os.X_OK),
        private=private,
        problem=problem,
        hint=hint,
    )


def read_port(host: str, number: int, daemon: DaemonState) -> PortState:
    """Read what listens on the port; a negative number is none, 0 any free one."""
    if number <= 0:
        return PortState(number=-1)
    try:
        with socket.create_connection((host, number), _PATIENCE):
            taken = True
    except OSError:
        taken = False
    if not taken or daemon.address.endswith(f":{number}"):
        return PortState(number=number, taken=taken, ours=taken)
    pid = _listener(number)
    return PortState(number=number, taken=True, pid=pid, program=_name(pid))


def read_limits() -> ProcessLimits:
    """Read the limits of this process, which a daemon started by it inherits."""
    if sys.platform == "win32":
        return ProcessLimits()
    import resource

    def soft(which: int) -> int | None:
        limit = resource.getrlimit(which)[0]
        return None if limit == resource.RLIM_INFINITY else limit

    return ProcessLimits(
        open_files=soft(resource.RLIMIT_NOFILE), locked_memory=soft(resource.RLIMIT_MEMLOCK)
    )


def _listener(port: int) -> int:
    """Return the process id of the listener; 0 if the system does not report it, as for other
    users.
    """
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return 0
    listening = (
        connection.pid
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr[1] == port
    )
    return next(listening, None) or 0


def _name(pid: int) -> str:
    if not pid:
        return ""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def _family(pid: int) -> list[int]:
    """Return the daemon and its workers."""
    if not pid:
        return []
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []
