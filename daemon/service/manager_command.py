"""Runs the service manager's command-line program."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence

from .service_manager import ServiceFailed

Runner = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]
_PATIENCE = 60


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Return the program's output, whatever its status; status 127 if it is not installed."""
    program = shutil.which(command[0])
    if program is None:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")
    try:
        return subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "it does not answer")


def must(run: Runner, command: Sequence[str]) -> None:
    """Run it; raises `ServiceFailed` with its last line of output if it fails."""
    done = run(command)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        said = words[-1] if words else f"exit status {done.returncode}"
        raise ServiceFailed(
            f"`{' '.join(command)}` failed: {said.rstrip('.')}.",
            "The files are written; `ingle service uninstall` removes them.",
        )
