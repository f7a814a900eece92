"""Denied system calls are named, and fail as without a reporter."""

from __future__ import annotations

import subprocess
import sys

import pytest

DENIED = """
import os, socket, sys, threading
from ingle.backends.confinement.denied_call_reporter import DeniedCallReporter
from ingle.backends.confinement.seccomp_filter import filter_calls
reporter = DeniedCallReporter()
assert filter_calls(drives_gpu=sys.argv[1] == "gpu", reporter=reporter)
def attempt(action):
    try:
        action()
    except OSError as error:
        print(type(error).__name__)
print(reporter.take())
attempt(lambda: os.chmod("/", 0o755))
attempt(lambda: os.chmod("/", 0o755))
thread = threading.Thread(target=attempt, args=[lambda: socket.socket(socket.AF_INET)])
thread.start()
thread.join()
if sys.argv[1] == "gpu":
    attempt(lambda: socket.socket(socket.AF_UNIX).connect("/tmp/nvidia-mps/control"))
print(reporter.take())
print(reporter.take())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses Linux features")
@pytest.mark.parametrize("mode", ["cpu", "gpu"])
def test_denied_calls_are_named(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DENIED, mode],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    connects = mode == "gpu"
    names = ["chmod", "socket", *(["connect"] if connects else [])]
    errors = ["PermissionError"] * 3 + ["FileNotFoundError"] * connects
    assert done.stdout.splitlines() == ["[]", *errors, repr(names), "[]"], done.stderr
    assert done.stderr == ""
