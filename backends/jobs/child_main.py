"""Entry point of a job's child process: reads the spec, runs the job, reports its result."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from ingle.models.errors import ModelError

from ..base.child_process import die_with_parent
from ..base.errors import BackendError, LoadFailed
from ..base.process_priority import yield_to_interactive
from ..confinement.access_policy import AccessPolicy
from ..confinement.confine import confine
from ..confinement.denied_call_reporter import DeniedCallReporter
from ..confinement.gpu_files import redirect_caches
from .child_task import TaskFailed

S = TypeVar("S", bound=msgspec.Struct)
Send = Callable[[msgspec.Struct], None]

_BROKEN = 3


def run_task(
    spec_type: type[S],
    work: Callable[[S, Send], msgspec.Struct],
    policy: Callable[[S], AccessPolicy | None],
    reporter: DeniedCallReporter | None = None,
) -> NoReturn:
    """Run `work` on the spec from stdin, send its result, and end the process.

    The process is confined to the files that `policy` returns and to its working folder; with None
    it is not confined. `reporter` names the system calls that are denied.
    """
    status = _BROKEN
    try:
        die_with_parent(int(sys.argv[1]))
        yield_to_interactive()
        # Reserve fd 1 for messages: anything else that a library prints goes to stderr.
        sink = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=spec_type)
        if (allowed := policy(spec)) is not None:
            if allowed.drives_gpu:
                redirect_caches(Path.cwd())
            confine(allowed.with_folder(Path.cwd()), reporter)
        threading.Thread(target=_exit_at_stdin_end, name="reader", daemon=True).start()

        def send(message: msgspec.Struct) -> None:
            sink.write(msgspec.json.encode(message) + b"\n")
            sink.flush()

        try:
            result, ended = work(spec, send), 0
        except (BackendError, ModelError) as error:
            result, ended = TaskFailed(error.code, error.message, error.hint), 1
        send(result)
        status = ended
    except BrokenPipeError:
        status = 0  # the parent has gone
    except Exception:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # The reader thread blocks on stdin, whose lock would make a regular exit abort.
        os._exit(status)


def require_torch(what: str) -> None:
    """Raise `LoadFailed`, which says that `what` needs PyTorch, unless it is installed."""
    if find_spec("torch") is None:
        raise LoadFailed(
            f"{what} needs PyTorch, which is not installed.",
            hint="Install it with `ingle engine install cuda`.",
        )


def _exit_at_stdin_end() -> None:
    """Exit when stdin closes, even while the main thread is in native code."""
    while sys.stdin.buffer.read(4096):
        continue
    os._exit(0)
