"""Starts the process that verifies a model, and hears it out."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO

import msgspec

from ..errors import BackendError, WorkerDied
from ..process import signal_name, worker_environment
from .messages import Failed, Message, Progress, Report, VerificationSpec

_LAST_WORDS = 4096


def run_verification(spec: VerificationSpec, on_progress: Callable[[Progress], None]) -> Report:
    """Compare in a process of its own, which ends with this call however that ends.

    Raises `BackendError` with the reason where nothing can be compared.
    """
    with tempfile.TemporaryFile() as errors, _start(errors) as child:
        try:
            return _hear_out(child, spec, on_progress, errors)
        finally:
            child.kill()


def _start(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    # Nothing here needs the network, and a library that can fetch models would use it.
    environment = worker_environment(os.environ) | {"HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ingle.backends.verification.child", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=tempfile.gettempdir(),
        env=environment,
        # Ctrl-C is ours to handle, or native code would die of it with a trace.
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


def _hear_out(
    child: subprocess.Popen[bytes],
    spec: VerificationSpec,
    on_progress: Callable[[Progress], None],
    errors: IO[bytes],
) -> Report:
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # its end is told below
        child.stdin.write(msgspec.json.encode(spec) + b"\n")
        child.stdin.flush()
    decoder = msgspec.json.Decoder[Message](Message)
    for line in child.stdout:
        message: Message = decoder.decode(line)
        match message:
            case Progress() as progress:
                on_progress(progress)
            case Report() as report:
                return report
            case Failed() as failed:
                raise BackendError(failed.message, hint=failed.hint, code=failed.code)
    raise _died(child.wait(), errors)


def _died(status: int, errors: IO[bytes]) -> WorkerDied:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_WORDS))
    tail = errors.read().decode("utf-8", "replace")
    last = next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")
    how = f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
    return WorkerDied(
        f"The process that compares the engines {how}{': ' + last if last else '.'}",
        hint="The file may be damaged: pull it again, or choose another.",
        stderr_tail=tail,
    )
