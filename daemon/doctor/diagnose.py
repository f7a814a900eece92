"""Runs all checks on a system state; a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..client.doctor_types import Diagnostic
from . import daemon_checks, engine_checks, gpu_checks, machine_checks
from .system_state import DoctorReport, SystemState

CHECKS: dict[str, Callable[[SystemState], Iterator[Diagnostic]]] = {
    "settings": daemon_checks.check_settings,
    "folders": daemon_checks.check_folders,
    "daemon": daemon_checks.check_daemon,
    "port": daemon_checks.check_port,
    "NVIDIA's driver": gpu_checks.check_driver,
    "own engine": gpu_checks.check_own_engine,
    "llama.cpp": gpu_checks.check_llama_cpp,
    "failed engines": engine_checks.check_failures,
    "visible GPUs": gpu_checks.check_visibility,
    "GPU memory": gpu_checks.check_gpu_memory,
    "other programs": daemon_checks.check_neighbours,
    "processor": machine_checks.check_processor,
    "memory": machine_checks.check_memory,
    "WSL": machine_checks.check_wsl,
    "the GPU's share": machine_checks.check_apple_limit,
    "disk": machine_checks.check_disk,
    "limits": daemon_checks.check_limits,
    "clock": machine_checks.check_clock,
}
"""Checks by subject."""
_ORDER = ("broken", "warning", "note")


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
