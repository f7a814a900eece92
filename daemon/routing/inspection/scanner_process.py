"""The daemon's side of the process that scans texts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import BinaryIO, cast

import msgspec

from ingle.backends.base.child_process import child_environment
from ingle.backends.base.framing import frame, read_body

from ..detectors.finding import SensitiveFinding, TextPart
from ..detectors.own_words import OwnWords
from .scan_protocol import FindingList, ScanRequest

_MODULE = "ingle.daemon.routing.inspection.scan_process"
_WARM_UP = ScanRequest([TextPart("", "a")], OwnWords())


class ScanFailed(Exception):
    """The process reported an error, or died."""


class ScannerProcess:
    """Owns at most one process, started by the first scan, replaced once it is gone.

    Blocking, one caller at a time; `close` may be called from any thread. The process keeps what it
    found by digest, so that what an earlier turn sent is not scanned again.
    """

    def __init__(self, seconds: float, start_seconds: float = 30.0) -> None:
        """`seconds` bounds one scan, and `start_seconds` the start of a process."""
        self._seconds, self._start_seconds = seconds, start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._decoder = msgspec.msgpack.Decoder(FindingList)

    @property
    def pid(self) -> int | None:
        """Return the id of the process, None if there is none."""
        return self._process.pid if self._process is not None else None

    def scan(self, parts: Sequence[TextPart], words: OwnWords) -> list[SensitiveFinding]:
        """Return the findings; raises `ScanFailed` or TimeoutError, and ends the process then."""
        process = self._process
        if process is None or process.poll() is not None:
            self.close()
            process = self._process = _started()
            # Its imports and tables take longer than most scans.
            self._exchange(process, _WARM_UP, self._start_seconds)
        answer = self._exchange(process, ScanRequest(list(parts), words), self._seconds)
        if answer.error:
            raise ScanFailed(answer.error)
        return answer.findings

    def close(self) -> None:
        """End the process, also during a scan; the next scan starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # unsent data has no reader any more
                if stream is not None:
                    stream.close()

    def _exchange(
        self, process: subprocess.Popen[bytes], request: ScanRequest, seconds: float
    ) -> FindingList:
        stdin, stdout = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        body = frame(msgspec.msgpack.encode(request))
        watchdog = threading.Timer(seconds, end)
        watchdog.daemon = True
        watchdog.start()
        try:
            stdin.write(body)
            stdin.flush()
            return self._decoder.decode(read_body(stdout))
        except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
            self.close()
            if late.is_set():
                raise TimeoutError from error
            raise ScanFailed("the process died") from error
        finally:
            watchdog.cancel()


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-X", "utf8", "-m", _MODULE, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a traceback could quote what is scanned
        cwd=os.path.abspath(os.sep),  # noqa: PTH100  # the root of whatever drive this is
        env=child_environment(os.environ),
        start_new_session=True,  # a terminal's Ctrl-C is for the daemon
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
