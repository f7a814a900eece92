"""The daemon's side of the process that scans texts, and the messages between both.

Framed as the worker protocol: a little-endian u32 length, then that many bytes of msgpack; one
answer for each request, in order.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import msgspec

from ingle.backends.base.framed_child import ChildDied, FramedChild, start_child

from ..detectors.finding import SensitiveFinding, TextPart
from ..detectors.own_words import OwnWords


class ScanRequest(msgspec.Struct, frozen=True):
    """Scan the texts with the user's words."""

    parts: list[TextPart]
    words: OwnWords


class FindingList(msgspec.Struct, frozen=True):
    """The findings, or the type of the error; its message might quote what was scanned."""

    findings: list[SensitiveFinding] = []
    error: str = ""


_MODULE = "ingle.daemon.routing.inspection.scan_process"
_WARM_UP = ScanRequest([TextPart("", "a")], OwnWords())


class ScanFailed(Exception):
    """The process reported an error, or died."""


class ScannerProcess(FramedChild):
    """The process is started by the first scan.

    It keeps what it found by digest, so that what an earlier turn sent is not scanned again.
    """

    def __init__(self, seconds: float, start_seconds: float = 30.0) -> None:
        """`seconds` bounds one scan, and `start_seconds` the start of a process."""
        super().__init__()
        self._seconds, self._start_seconds = seconds, start_seconds
        self._decoder = msgspec.msgpack.Decoder(FindingList)

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

    def _exchange(
        self, process: subprocess.Popen[bytes], request: ScanRequest, seconds: float
    ) -> FindingList:
        try:
            body = self._ask(process, msgspec.msgpack.encode(request), seconds)
            return self._decoder.decode(body)
        except (ChildDied, msgspec.MsgspecError) as error:
            self.close()
            raise ScanFailed("the process died") from error


def _started() -> subprocess.Popen[bytes]:
    return start_child(_MODULE)
