"""Text of the `doctor` report: the machine, then the findings."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from ingle.backends.hardware.machine import Gpu, Machine
from ingle.backends.packages.engine_packages import SPEECH
from ingle.backends.registry.engines import all_engines

from ..client.doctor_types import Diagnostic
from ..terminal.terminal_colors import Colour, TerminalColors
from ..terminal.terminal_output import format_bytes, strip_control_characters
from .system_state import DoctorReport, SystemState

_NAME_WIDTH = 11
_NARROWEST = 40
_MARKS: dict[str, tuple[str, Colour]] = {
    "broken": ("✗", "red"),
    "warning": ("!", "yellow"),
    "note": ("·", "blue"),
}


def report_text(report: DoctorReport, *, columns: int, paint: TerminalColors) -> str:
    """Return the report in lines of at most `columns` characters, except for longer words."""
    width = max(_NARROWEST, columns)
    situation, lines = report.situation, list[str]()
    engines = [
        (
            each.title.removesuffix(" engine"),
            [each.describe_installation(situation.machine.software)],
        )
        for each in all_engines()
    ]
    if SPEECH in situation.engines:
        engines.append((SPEECH, [f"faster-whisper {situation.engines[SPEECH]}"]))
    for title, facts in (
        ("Machine", _machine_facts(situation.machine)),
        ("Engines", engines),
        ("Daemon", _daemon_facts(situation)),
    ):
        lines += [paint.bold(title), *_facts(facts, width), ""]
    lines += [paint.bold(_headline(report.findings))]
    for finding in report.findings:
        lines += _finding(finding, width, paint)
    fine = f"Fine: {', '.join(report.fine)}."
    lines += _marked(paint.colour("✓", "green"), _wrapped(fine, width - 4))
    return "\n".join(lines)


def _machine_facts(machine: Machine) -> list[tuple[str, list[str]]]:
    """Return processor, memory, GPUs, disk and system, each in short lines."""
    memory, software = machine.memory, machine.software
    available = f"{format_bytes(memory.usable_total)}, {format_bytes(memory.usable)} free"
    remembered = [available]
    if memory.limit is not None:
        remembered = [f"{available}, of {format_bytes(memory.total)} in the machine"]
    if memory.swap_total:
        swap = f"{format_bytes(memory.swap_used)} of {format_bytes(memory.swap_total)}"
        remembered.append(f"swap: {swap if memory.swap_used else 'none'} used")
    facts = [("processor", _processor(machine)), ("memory", remembered)]
    facts += [("graphics", _graphics(gpu)) for gpu in machine.gpus] or [("graphics", ["none"])]
    if (disk := machine.disk) is not None:
        kind = {"unknown": ""}.get(disk.kind, disk.kind)
        kinds = " ".join(part for part in (disk.filesystem, kind) if part)
        room = f"{format_bytes(disk.free)} free of {format_bytes(disk.total)}"
        facts.append(("models", [disk.folder, f"{room} · {kinds}" if kinds else room]))
    system = [software.release or software.system]
    if software.wsl:
        system.append("under Windows (WSL)")
    if software.container:
        system.append(f"in a container ({software.container})")
    facts.append(("system", [" · ".join(part for part in system if part)]))
    return facts


def _processor(machine: Machine) -> list[str]:
    cpu = machine.cpu
    cores = f"{cpu.cores} core{'s' if cpu.cores > 1 else ''}"
    if cpu.threads != cpu.cores:
        cores += f", {cpu.threads} threads"
    if cpu.quota is not None:
        cores += f", {cpu.quota:g} of them allowed"
    model = cpu.model or cpu.architecture or "unknown"
    count = cpu.compute_threads
    threads = f"models get {count} thread{'s' if count > 1 else ''}"
    lines = [
        f"{model} · {cores}",
        " · ".join([threads, " ".join(cpu.instruction_sets)]).rstrip(" ·"),
    ]
    if cpu.bandwidth:
        lines.append(f"memory read at {_rate(cpu.bandwidth)} ({cpu.bandwidth_source})")
    return lines


def _graphics(gpu: Gpu) -> list[str]:
    first = [gpu.name]
    if gpu.memory_total is not None:
        free = f", {format_bytes(gpu.memory_free)} free" if gpu.memory_free is not None else ""
        shared = " of the machine's" if gpu.unified else ""
        first.append(f"{format_bytes(gpu.memory_total)}{shared}{free}")
    second: list[str] = []
    if gpu.bandwidth:
        second.append(_rate(gpu.bandwidth))
    if gpu.compute_capability:
        major, minor = gpu.compute_capability
        second.append(f"compute capability {major}.{minor}")
    if gpu.vendor == "apple" and gpu.cores:
        second.append(f"{gpu.cores} cores")
    if gpu.driver:
        second.append(f"driver {gpu.driver}" + (f", CUDA {gpu.cuda}" if gpu.cuda else ""))
    if gpu.power_limit:
        drawn = f"{gpu.watts:.0f} of " if gpu.watts is not None else ""
        second.append(f"{drawn}{gpu.power_limit:.0f} W")
    lines = [" · ".join(first)]
    if second:
        lines.append(" · ".join(second))
    holders = [
        f"{process.name or '?'} {format_bytes(process.memory or 0)}"
        for process in gpu.processes
        if process.memory
    ]
    if holders:
        lines.append(f"held by {', '.join(holders[:4])}" + (" …" if len(holders) > 4 else ""))
    return lines


def _daemon_facts(situation: SystemState) -> list[tuple[str, list[str]]]:
    """Return whether the daemon runs, and where it listens."""
    daemon, software = situation.daemon, situation.machine.software
    if daemon.state != "running":
        state = "does not answer" if daemon.state == "silent" else "not running"
        return [("state", [state]), ("version", [f"ingle {software.ingle}"])]
    listens = [daemon.socket]
    if daemon.address:
        listens.append(f"http://{daemon.address}")
    return [
        ("state", [f"running as process {daemon.pid}, ingle {daemon.version}"]),
        ("listens on", listens),
    ]


def _rate(bandwidth: float) -> str:
    return f"{bandwidth / 1e9:.0f} GB/s"


def _facts(facts: Sequence[tuple[str, list[str]]], width: int) -> Iterator[str]:
    for name, values in facts:
        label = name
        for value in values:
            for part in _wrapped(strip_control_characters(value), width - _NAME_WIDTH - 3) or [""]:
                yield f"  {label.ljust(_NAME_WIDTH)} {part}".rstrip()
                label = ""


def _headline(findings: Sequence[Diagnostic]) -> str:
    count = Counter(finding.severity for finding in findings)
    words = {"broken": "broken", "warning": "to look at", "note": "to know"}
    parts = [f"{count[kind]} {word}" for kind, word in words.items() if count[kind]]
    return f"Checks: {', '.join(parts) or 'all is well'}"


def _marked(mark: str, lines: Iterable[str]) -> Iterator[str]:
    marks = chain([f"  {mark} "], repeat("    "))
    return (mark + line for mark, line in zip(marks, lines, strict=False))


def _finding(finding: Diagnostic, width: int, paint: TerminalColors) -> Iterator[str]:
    mark, colour = _MARKS[finding.severity]
    what = _wrapped(strip_control_characters(finding.what), width - 4)
    yield from _marked(paint.colour(mark, colour), map(paint.bold, what))
    for text in (finding.why, finding.mend):
        yield from ("    " + part for part in _wrapped(strip_control_characters(text), width - 4))
    for command in finding.commands:
        yield from (
            "      " + part for part in fold_command(strip_control_characters(command), width - 6)
        )
    yield ""


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def fold_command(command: str, width: int) -> list[str]:
    """Split a command into lines that a shell reads as one; words are never cut."""
    if len(command) <= width:
        return [command]
    continued = " `" if command.startswith(("$env:", "& ")) else " \\"
    lines = [""]
    for word in command.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 + len(continued) > width:
            lines[-1] += continued
            lines.append("  " + word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines
