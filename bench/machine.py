"""Description of the machine for result files."""

from __future__ import annotations

import json
import os
import platform
import statistics
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("ingle", "llama-cpp-python", "torch", "triton")


def describe() -> dict[str, object]:
    """CPU, memory, system and the versions that matter."""
    return {
        "measured": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name.replace("-", "_"): _version(name) for name in _PACKAGES},
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def save(name: str, figures: dict[str, object]) -> Path:
    """Write one result file; return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": describe(), **figures}, indent=2) + "\n")
    return path


def median(values: list[float]) -> float:
    """The figure to quote of several runs."""
    return statistics.median(values)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # a checkout alone, on a machine that is lent for its GPU
        return None


def _memory_gib() -> float | None:
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        "unknown",
    )
