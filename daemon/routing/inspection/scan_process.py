"""The process that scans, run as `python -P -m`: it has no network and no files of the user."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ingle.backends.base.child_process import die_with_parent
from ingle.backends.base.framing import frame, read_body
from ingle.backends.confinement.access_policy import AccessPolicy
from ingle.backends.confinement.confine import confine

from ..detectors.own_words import OwnWords
from .scanner_process import FindingList, ScanRequest

if TYPE_CHECKING:
    from .text_scanner import Scanner

_ROUTING = Path(__file__).parents[1]
"""The folder of the detectors and their tables."""

_SECONDS = 15.0
"""Of processor time, more than a scan allows itself: one detector may be stuck."""


@contextmanager
def processor_limit(seconds: float) -> Generator[None]:
    """End this process if what is done takes more processor time; nowhere on Windows."""
    if sys.platform == "win32":
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, seconds)  # whose signal ends it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def main() -> None:
    """Answer requests on stdin until it closes."""
    die_with_parent(int(sys.argv[1]))
    # Anything that a library prints must not be among the frames.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    confine(AccessPolicy(reads=(_ROUTING,)))
    decoder = msgspec.msgpack.Decoder(ScanRequest)
    scanner: Scanner | None = None
    words: OwnWords | None = None
    while True:
        try:
            request = decoder.decode(read_body(sys.stdin.buffer))
        except EOFError:
            return
        try:
            if scanner is None or request.words != words:
                # Imported here, after confinement, since libraries may start threads.
                from .text_scanner import make_scanner

                scanner, words = make_scanner(request.words), request.words
            with processor_limit(_SECONDS):
                answer = FindingList(scanner.scan(request.parts))
        except Exception as error:
            answer = FindingList(error=type(error).__name__)
        sink.write(frame(msgspec.msgpack.encode(answer)))
        sink.flush()


if __name__ == "__main__":
    main()
