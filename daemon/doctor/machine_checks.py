"""Checks of processor, memory, disk and clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..client.doctor_types import Diagnostic
from ..terminal.terminal_output import format_bytes
from .system_state import SystemState

GIB = 2**30
_LEAST_MEMORY = 2 * GIB
_LEAST_AVAILABLE = GIB
_NO_DISK, _LITTLE_DISK = GIB // 2, 5 * GIB
_SWAP_WORTH_TELLING = GIB // 2
_DAY = 86_400.0
_YEARS_AHEAD = 10 * 365 * _DAY
_PLENTY = 24 * GIB
_UNSUITABLE = {
    "network": (
        "Models are on a network drive, or on a drive of another system.",
        "Loading is slow, locks may not hold, and mapped weights may end a model when the drive "
        "goes away.",
    ),
    "hdd": ("Models are on a spinning disk.", "A model of 5 GB takes about half a minute to load."),
    "memory": (
        "Models are stored in memory, and lost on restart.",
        "They use the memory that loaded models need.",
    ),
}
"""Kinds of disks that are slow or volatile, with the problem and its consequence."""


def check_processor(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that the processor has the instructions that engines are built for."""
    cpu, software = situation.machine.cpu, situation.machine.software
    if cpu.architecture == "x86_64" and cpu.model.startswith("Apple "):
        yield Diagnostic(
            code="rosetta",
            severity="warning",
            what="This Python is made for Intel processors, and runs translated.",
            why="Models run several times slower this way, and never on the GPU.",
            mend="Install a Python for Apple processors, and ingle with it:",
            commands=["arch -arm64 uv run --python-preference only-managed ingle doctor"],
        )
        return
    known = cpu.architecture in ("x86_64", "AMD64") and cpu.instruction_sets
    if known and "AVX2" not in cpu.instruction_sets:
        yield Diagnostic(
            code="no-avx2",
            severity="warning",
            what=f"The processor ({cpu.model or 'x86'}) has no AVX2.",
            why="Models run several times slower than on processors since 2013; a llama.cpp that "
            "was built on another machine may end with an illegal instruction.",
            mend="If it is a virtual machine, pass the host's processor through."
            if software.system == "Linux"
            else "Choose small models, such as smollm2.",
        )


def check_memory(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that there is memory for models, and nothing is swapped."""
    memory, software = situation.machine.memory, situation.machine.software
    if memory.limit is not None and memory.limit < min(memory.total, 2 * _LEAST_MEMORY):
        yield Diagnostic(
            code="low-memory-limit",
            severity="broken" if memory.limit < _LEAST_MEMORY // 4 else "warning",
            what=f"A control group limits ingle to {format_bytes(memory.limit)} of memory.",
            why=f"The machine has {format_bytes(memory.total)}. What uses more is killed.",
            mend="Start the container with more:"
            if software.container
            else "Raise MemoryMax of the unit, for example:",
            commands=["docker run --memory 8g …"]
            if software.container
            else ["systemctl --user edit ingle.service"],
        )
    elif memory.usable < _LEAST_AVAILABLE:
        yield Diagnostic(
            code="low-memory",
            severity="warning",
            what=f"Only {format_bytes(memory.usable)} of memory are free.",
            why=f"Of {format_bytes(memory.usable_total)}. A model of 1B takes about 1 GB.",
            mend="End programs that you do not need; `ingle ps` shows the memory of models.",
        )
    swapping = memory.swap_used >= _SWAP_WORTH_TELLING and memory.available < memory.total // 4
    if swapping:
        yield Diagnostic(
            code="swap-in-use",
            severity="warning",
            what=f"{format_bytes(memory.swap_used)} of memory are swapped out.",
            why="A model that is partly swapped out is a hundred times slower.",
            mend="End programs that use memory, or choose a smaller model.",
        )


def check_wsl(situation: SystemState) -> Iterator[Diagnostic]:
    """Check the memory limit of WSL."""
    memory, software = situation.machine.memory, situation.machine.software
    if software.wsl and memory.total < _PLENTY:
        yield Diagnostic(
            code="wsl-memory",
            severity="note",
            what=f"WSL lets Linux have {format_bytes(memory.total)} of memory.",
            why="Windows gives it half of the machine's memory by default.",
            mend="For larger models set `memory=` below `[wsl2]` in "
            "%UserProfile%\\.wslconfig, then:",
            commands=["wsl.exe --shutdown"],
        )


def check_apple_limit(situation: SystemState) -> Iterator[Diagnostic]:
    """Check the GPU memory limit of a Mac."""
    memory = situation.machine.memory
    for gpu in situation.machine.gpus:
        limit = gpu.memory_total or 0
        if gpu.vendor != "apple" or memory.total < 32 * GIB or limit > 0.8 * memory.total:
            continue
        most = (memory.total - max(8 * GIB, memory.total // 8)) // 2**20
        yield Diagnostic(
            code="wired-limit",
            severity="note",
            what=f"The GPU may have {format_bytes(limit)} of {format_bytes(memory.total)}.",
            why="macOS keeps the rest for programs, unless you raise the limit until a restart.",
            mend="For a model that needs more:",
            commands=[f"sudo sysctl iogpu.wired_limit_mb={most}"],
        )


def check_disk(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that there is disk space for models, on a disk that is fast enough."""
    disk = situation.machine.disk
    if disk is None:
        return
    if disk.free < _LITTLE_DISK:
        yield Diagnostic(
            code="little-disk",
            severity="broken" if disk.free < _NO_DISK else "warning",
            what=f"Only {format_bytes(disk.free)} are free for models.",
            why=f"In {disk.folder}. A model of 8B takes about 5 GB.",
            mend="Remove models, or keep ingle's files on another disk:",
            commands=["ingle list", "export INGLE_HOME=/another/disk/ingle"],
        )
    if disk.kind in _UNSUITABLE:
        what, why = _UNSUITABLE[disk.kind]
        yield Diagnostic(
            code=f"models-on-{disk.kind}",
            severity="note" if disk.kind == "hdd" else "warning",
            what=what,
            why=f"{disk.folder} is {disk.filesystem or 'a slow disk'}. {why}",
            mend="Keep them on a disk of this machine:",
            commands=["export INGLE_HOME=~/ingle"],
        )


def check_clock(situation: SystemState) -> Iterator[Diagnostic]:
    """Check that the clock is neither before the installation of ingle nor years ahead."""
    clock = situation.clock
    behind = clock.installed and clock.now < clock.installed - _DAY
    ahead = clock.installed and clock.now > clock.installed + _YEARS_AHEAD
    if not behind and not ahead:
        return
    shown = time.strftime("%Y-%m-%d %H:%M", time.gmtime(clock.now))
    linux = situation.machine.software.system == "Linux"
    yield Diagnostic(
        code="clock-wrong",
        severity="broken",
        what=f"The clock says {shown} UTC, which cannot be right.",
        why="Downloads fail with it: certificates seem expired, or not valid yet.",
        mend="Let the system set it:" if linux else "Let the system set it in its settings.",
        commands=["sudo timedatectl set-ntp true"] if linux else [],
    )
