"""Runs all checks on a system state; a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..client.doctor_types import Diagnostic, DoctorFindings
from .daemon_checks import (
    check_daemon,
    check_folders,
    check_limits,
    check_neighbours,
    check_port,
    check_settings,
)
from .gpu_checks import (
    check_driver,
    check_gpu_memory,
    check_llama_cpp,
    check_own_engine,
    check_visibility,
)
from .machine_checks import (
    check_apple_limit,
    check_clock,
    check_disk,
    check_memory,
    check_processor,
    check_wsl,
)
from .system_state import SystemState

CHECKS: dict[str, Callable[[SystemState], Iterator[Diagnostic]]] = {
    "settings": check_settings,
    "folders": check_folders,
    "daemon": check_daemon,
    "port": check_port,
    "NVIDIA's driver": check_driver,
    "own engine": check_own_engine,
    "llama.cpp": check_llama_cpp,
    "visible GPUs": check_visibility,
    "GPU memory": check_gpu_memory,
    "other programs": check_neighbours,
    "processor": check_processor,
    "memory": check_memory,
    "WSL": check_wsl,
    "the GPU's share": check_apple_limit,
    "disk": check_disk,
    "limits": check_limits,
    "clock": check_clock,
}
"""Checks by subject."""
_ORDER = ("broken", "warning", "note")


class DoctorReport(DoctorFindings, frozen=True, kw_only=True):
    """The state of the system, and the problems found in it; `ok` if nothing is broken."""

    situation: SystemState


def diagnose(situation: SystemState) -> DoctorReport:
    """Run all checks; the findings are sorted, most severe first."""
    findings: list[Diagnostic] = []
    fine: list[str] = []
    for name, check in CHECKS.items():
        found = list(check(situation))
        findings += found
        if not found:
            fine.append(name)
    return DoctorReport(
        ok=all(finding.severity != "broken" for finding in findings),
        findings=sorted(findings, key=lambda each: _ORDER.index(each.severity)),
        fine=fine,
        situation=situation,
    )
