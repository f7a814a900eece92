"""State of the machine and of ingle on it, as the checks read it, and the report on it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ingle.backends.hardware.machine import Machine

from ..client.doctor_types import DoctorFindings
from ..engines.engine_failures import EngineFailure

FolderUse = Literal["config", "models", "state", "runtime"]
"""The attribute of `Paths` that is the folder."""


class FolderState(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that ingle needs; `problem` and `hint` say why it must not be used."""

    use: FolderUse
    path: str
    exists: bool = True
    writable: bool = True
    private: bool = True
    problem: str = ""
    hint: str = ""


class PortState(msgspec.Struct, frozen=True, kw_only=True):
    """What listens on the port for editors; `pid` is 0 if that cannot be determined.

    `ours`: it is the running daemon; a negative `number` means that TCP is turned off.
    """

    number: int
    taken: bool = False
    ours: bool = False
    pid: int = 0
    program: str = ""


class DaemonState(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon as commands find it; `error` and `hint` are for one that is `silent`."""

    state: Literal["running", "stopped", "silent"] = "stopped"
    version: str = ""
    pid: int = 0
    address: str = ""
    socket: str = ""
    socket_moved: bool = False
    error: str = ""
    hint: str = ""


class OtherServer(msgspec.Struct, frozen=True, kw_only=True):
    """Another program that runs models; bytes, `gpu_memory` null if no driver reports it."""

    program: str
    pid: int
    memory: int = 0
    gpu_memory: int | None = None


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that the system sets for this user's processes; null without a limit, bytes for
    memory.
    """

    open_files: int | None = None
    locked_memory: int | None = None


class ClockState(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds since 1970: now, and when this ingle was installed."""

    now: float = 0.0
    installed: float = 0.0


class SystemState(msgspec.Struct, frozen=True, kw_only=True):
    """Input of all checks; `config_error` is for settings that cannot be read.

    `engines` are the versions of what `ingle engine install` brought, by name. `engine_failures`
    are those on record, of which those in the `engine_setting` count. `own_pids` are the daemon and
    its workers, `visible_gpus` is the value of `CUDA_VISIBLE_DEVICES`.
    """

    machine: Machine
    engines: dict[str, str] = {}
    engine_failures: list[EngineFailure] = []
    engine_setting: str = ""
    daemon: DaemonState = DaemonState()
    folders: list[FolderState] = []
    port: PortState = PortState(number=-1)
    neighbours: list[OtherServer] = []
    limits: ProcessLimits = ProcessLimits()
    clock: ClockState = ClockState()
    own_pids: list[int] = []
    visible_gpus: str | None = None
    wants_locked_memory: bool = False
    config_file: str = ""
    config_error: str = ""
    config_hint: str = ""


class DoctorReport(DoctorFindings, frozen=True, kw_only=True):
    """The state of the system, and the problems found in it; `ok` if nothing is broken."""

    situation: SystemState
