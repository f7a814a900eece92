"""Runs a job in a confined child process: start, progress, result, cleanup."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import IO, Any, Generic, TypeVar

import msgspec

from ..base.child_process import child_environment, signal_name
from ..base.errors import BackendError, WorkerDied

P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)

_LAST_WORDS = 4096


class TaskFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The error that the job ended with."""

    code: str
    message: str
    hint: str | None


class ChildTask(Generic[P, R]):
    """Runs one job in a process of its own, since it opens untrusted files with native code.

    The spec is one line of JSON on stdin; the answers are lines of JSON: progress, then a result or
    a failure. `purpose` completes the sentence "The process that …".
    """

    def __init__(self, module: str, purpose: str, progress: type[P], result: type[R]) -> None:
        """`module` is run as `python -P -m`, and calls `run_task`."""
        self._module = module
        self._purpose = purpose
        self._result = result
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            progress | result | TaskFailed
        )

    def run(
        self,
        spec: msgspec.Struct,
        on_progress: Callable[[P], None],
        import_path: Sequence[str] = (),
    ) -> R:
        """Run the job; the process ends with this call in any case.

        The packages of engines are imported from the folders of `import_path` first. Raises
        `BackendError` with the reason if there is no result.
        """
        with (
            tempfile.TemporaryDirectory(prefix="ingle-task-") as folder,
            tempfile.TemporaryFile() as errors,
            self._start(folder, errors, import_path) as child,
        ):
            try:
                return self._read_messages(child, spec, on_progress, errors)
            finally:
                child.kill()

    def _start(
        self, folder: str, errors: IO[bytes], import_path: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        """Start the process with a temporary folder of its own."""
        # Jobs need no network, and libraries that can download models must not.
        offline = {"HF_HUB_OFFLINE": "1", "TMPDIR": folder, "TEMP": folder, "TMP": folder}
        environment = child_environment(os.environ, import_path) | offline
        return subprocess.Popen(
            [sys.executable, "-P", "-m", self._module, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=environment,
            # Ctrl-C is handled here; native code would die of it with a traceback.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )

    def _read_messages(
        self,
        child: subprocess.Popen[bytes],
        spec: msgspec.Struct,
        on_progress: Callable[[P], None],
        errors: IO[bytes],
    ) -> R:
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # reported below
            child.stdin.write(msgspec.json.encode(spec) + b"\n")
            child.stdin.flush()
        for line in child.stdout:
            message = self._decoder.decode(line)
            if isinstance(message, TaskFailed):
                raise BackendError(message.message, hint=message.hint, code=message.code)
            if isinstance(message, self._result):
                return message
            on_progress(message)
        raise self._died(child.wait(), errors)

    def _died(self, status: int, errors: IO[bytes]) -> WorkerDied:
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_WORDS))
        tail = errors.read().decode("utf-8", "replace")
        last = next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")
        killed = f"was killed by {signal_name(-status)}"
        how = killed if status < 0 else f"ended with status {status}"
        return WorkerDied(
            f"The process that {self._purpose} {how}{': ' + last if last else '.'}",
            hint="The file may be damaged: pull it again, or choose another.",
            stderr_tail=tail,
        )
