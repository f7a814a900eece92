"""Lets the tests of a pytest process share its scan processes, whose start takes a second."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import subprocess
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from ingle.daemon.routing.inspection import scanner_process
from ingle.daemon.routing.inspection.scanner_process import ScannerProcess


class SharedScanners:
    """Scan processes that no `ScannerProcess` has at the moment.

    A scan depends on nothing but its request, whatever the process has scanned before.
    """

    def __init__(self) -> None:
        self._idle: list[subprocess.Popen[bytes]] = []
        self._scanning: set[ScannerProcess] = set()
        # On Linux a process dies with the thread that has started it.
        self._thread = ThreadPoolExecutor(1)

    @contextmanager
    def shared(self) -> Generator[None]:
        """Keep a process that is closed between two scans, for the next one to start."""
        exchange, close = ScannerProcess._exchange, ScannerProcess.close
        started = scanner_process._started

        def take() -> subprocess.Popen[bytes]:
            while self._idle:
                process = self._idle.pop()
                if process.poll() is None:
                    return process
            return self._thread.submit(started).result()

        def note_exchange(scanner: ScannerProcess, *args: Any) -> Any:
            self._scanning.add(scanner)
            answer = exchange(scanner, *args)
            self._scanning.discard(scanner)
            return answer

        def keep(scanner: ScannerProcess) -> None:
            process = scanner._process
            if process is None or scanner in self._scanning:
                self._scanning.discard(scanner)
                close(scanner)
                return
            scanner._process = None
            self._idle.append(process)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scanner_process, "_started", take)
            patch.setattr(ScannerProcess, "_exchange", note_exchange)
            patch.setattr(ScannerProcess, "close", keep)
            yield

    def close(self) -> None:
        """End all idle processes."""
        while self._idle:
            process = self._idle.pop()
            process.kill()
            process.communicate()
