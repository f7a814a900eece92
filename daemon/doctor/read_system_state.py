"""Reads the state of ingle on this machine, and of other programs that run models on it."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import get_args

import psutil
from msgspec.structs import replace

from ingle.backends.hardware.machine import Gpu
from ingle.backends.hardware.read_machine import read_machine

from ..client.client_errors import ClientError
from ..client.sync_client import DaemonClient
from ..engines.engine_failures import EngineFailures, gpu_setting
from ..engines.engine_paths import engine_import_path, engine_versions
from ..settings.config import Config
from ..settings.paths import FolderUnusable, Paths, UnsafeFolder
from .system_state import (
    ClockState,
    DaemonState,
    FolderState,
    FolderUse,
    OtherServer,
    PortState,
    ProcessLimits,
    SystemState,
)

_PATIENCE = 0.5
"""Seconds that a local listener may take to accept."""
_PROGRAMS = (
    ("ollama", "Ollama"),
    ("lm studio", "LM Studio"),
    ("lm-studio", "LM Studio"),
    ("lmstudio", "LM Studio"),
    ("llama-server", "llama-server"),
    ("llamafile", "llamafile"),
    ("koboldcpp", "koboldcpp"),
    ("vllm", "vLLM"),
    ("sglang", "SGLang"),
    ("jan", "Jan"),
)
"""Prefixes of their process names, in lower case."""
_NAME_ALONE = ("jan",)
"""Too short for a prefix: only the whole name counts."""

Process = tuple[int, str, int]
"""Process id, name, and memory in bytes."""


def find_daemon(config: Config) -> DaemonState:
    """Return the daemon's own status, or why it does not answer."""
    client = DaemonClient(config.socket)
    moved = config.paths.socket_moved and config.socket == config.paths.socket
    stopped = DaemonState(socket=str(config.socket), socket_moved=moved)
    try:
        if not client.answers():
            return stopped
        status = client.status()
    except ClientError as error:
        return replace(stopped, state="silent", error=error.message, hint=error.hint or "")
    return replace(
        stopped,
        state="running",
        version=status.version,
        pid=status.pid,
        address=status.address or "",
        socket=status.socket,
    )


def read_system_state(
    config: Config,
    daemon: DaemonState,
    *,
    error: tuple[str, str] = ("", ""),
    anew: bool = False,
) -> SystemState:
    """Read the system state; blocks for up to a second if nothing is cached.

    `error` and its hint are for settings that cannot be read, for which `config` stands in.
    """
    paths = config.paths
    machine = read_machine(
        paths.models,
        paths.machine_facts,
        anew=anew,
        import_path=engine_import_path(paths),
    )
    own, failures = _family(daemon.pid), EngineFailures(paths.engine_failures).all()
    return SystemState(
        machine=machine,
        engines=engine_versions(paths),
        engine_failures=failures,
        engine_setting=gpu_setting() if failures else "",
        daemon=daemon,
        folders=read_folders(paths),
        port=read_port(config.host, config.port, daemon),
        neighbours=find_neighbours(machine.gpus, own),
        limits=read_limits(),
        clock=ClockState(now=time.time(), installed=Path(__file__).stat().st_mtime),
        own_pids=own,
        visible_gpus=os.environ.get("CUDA_VISIBLE_DEVICES"),
        wants_locked_memory=config.mlock,
        config_file=str(paths.config_file),
        config_error=error[0],
        config_hint=error[1],
    )


def read_folders(paths: Paths) -> list[FolderState]:
    """Read the four folders, of which that of the socket, the last one, must be private."""
    folders = [_folder(use, getattr(paths, use)) for use in get_args(FolderUse)]
    try:
        paths.check_private()
    except (UnsafeFolder, FolderUnusable) as error:
        folders[-1] = replace(folders[-1], problem=error.message, hint=error.hint)
    return folders


def _folder(use: FolderUse, path: Path) -> FolderState:
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
    )


def read_port(host: str, number: int, daemon: DaemonState) -> PortState:
    """Return the state of the configured port; a negative number is none, 0 any free one."""
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
    """Return the process ids of the daemon and its workers."""
    if not pid:
        return []
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []


def find_neighbours(gpus: Iterable[Gpu], own: Collection[int]) -> list[OtherServer]:
    """Return the other model servers that run now, except the processes in `own`."""
    return group_neighbours(_processes(), gpus, own)


def group_neighbours(
    processes: Iterable[Process], gpus: Iterable[Gpu], own: Collection[int]
) -> list[OtherServer]:
    """Return one entry per program, with the memory of all its processes; the pid is the largest
    one's.
    """
    on_gpu: dict[int, int] = {}
    for process in (process for gpu in gpus for process in gpu.processes):
        on_gpu[process.pid] = on_gpu.get(process.pid, 0) + (process.memory or 0)
    found: dict[str, list[Process]] = {}
    for process in processes:
        pid, name, _ = process
        program = _program(name)
        if program is not None and pid not in own:
            found.setdefault(program, []).append(process)
    return [
        OtherServer(
            program=program,
            pid=max(group, key=lambda each: on_gpu.get(each[0], 0) + each[2])[0],
            memory=sum(memory for _, _, memory in group),
            gpu_memory=sum(on_gpu.get(pid, 0) for pid, _, _ in group) if on_gpu else None,
        )
        for program, group in found.items()
    ]


def _program(name: str) -> str | None:
    lowered = name.lower().removesuffix(".exe")
    for beginning, program in _PROGRAMS:
        if lowered == beginning or (beginning not in _NAME_ALONE and lowered.startswith(beginning)):
            return program
    return None


def _processes() -> Iterable[Process]:
    with suppress(OSError):  # a sandbox may hide other processes
        for process in psutil.process_iter():
            try:
                yield process.pid, process.name(), process.memory_info().rss
            except psutil.Error:  # it has ended, or belongs to another user
                continue
