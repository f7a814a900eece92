"""A child process that answers framed messages, and is replaced once it is gone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import BinaryIO, cast

from .child_process import child_environment
from .framing import frame, read_body


class ChildDied(Exception):
    """The process ended before it answered."""


class FramedChild:
    """Owns at most one process; blocking, one caller at a time.

    `close` may be called from any thread.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Return the id of the process, None if there is none."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """End the process, also while it works."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # unsent data has no reader any more
                if stream is not None:
                    stream.close()

    def _ask(self, process: subprocess.Popen[bytes], body: bytes, seconds: float) -> bytes:
        """Return the answer; raises `ChildDied` or TimeoutError, and ends the process then."""
        stdin, stdout = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        watchdog = threading.Timer(seconds, end)
        watchdog.daemon = True
        watchdog.start()
        try:
            stdin.write(frame(body))
            stdin.flush()
            return read_body(stdout)
        except (OSError, EOFError, ValueError) as error:
            self.close()
            if late.is_set():
                raise TimeoutError from error
            raise ChildDied from error
        finally:
            watchdog.cancel()


def start_child(module: str, import_path: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a module of ours, with nothing of the daemon's environment and folder.

    It finds modules in the folders of `import_path` first.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", module, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a traceback could quote what is sent
        cwd=os.path.abspath(os.sep),  # noqa: PTH100  # the root of whatever drive this is
        env=child_environment(os.environ, import_path),
        start_new_session=True,  # a terminal's Ctrl-C is for the daemon
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
