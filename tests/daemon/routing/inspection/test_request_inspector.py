"""Request inspector: scans in a process of its own, whose failures are findings."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.routing.detectors.finding import FindingKind, TextPart
from ingle.daemon.routing.detectors.own_words import OwnWords
from ingle.daemon.routing.inspection.request_inspector import RequestInspector
from tests.harness.shared_scanner import SharedScanners

CARD = "4539 5787 6362 1486"
WORDS = OwnWords(words=("bluebird",))


@pytest.fixture(autouse=True)
def scanner(shared_scanners: SharedScanners) -> None:
    """Processes of their own, and no others."""
    shared_scanners.close()


@pytest.fixture
def inspector() -> Iterator[RequestInspector]:
    made = RequestInspector(lambda: WORDS)
    yield made
    made.close()


def scanner_pids() -> list[int]:
    children = psutil.Process().children()
    return [c.pid for c in children if any("scan_process" in word for word in c.cmdline())]


async def kinds(inspector: RequestInspector, text: str) -> set[FindingKind]:
    request = GenerateRequest(id="r", messages=[ChatMessage("user", text)])
    return {finding.kind for finding in (await inspector.inspect(request)).findings}


async def test_scans_in_one_process_that_the_first_scan_starts(inspector: RequestInspector) -> None:
    assert scanner_pids() == []
    asked = [kinds(inspector, text) for text in (f"Pay {CARD}", "Ask Bluebird", "Why is it blue?")]
    assert await asyncio.gather(*asked) == [{FindingKind.CARD}, {FindingKind.OWN_WORD}, set()]
    assert len(scanner_pids()) == 1
    inspector.close()
    assert scanner_pids() == []


async def test_dead_process_is_replaced(inspector: RequestInspector) -> None:
    await kinds(inspector, "hello")
    (pid,) = scanner_pids()
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(10)
    assert await kinds(inspector, f"Pay {CARD}") == {FindingKind.CARD}
    inspector.forget()
    assert scanner_pids() == []
    assert await kinds(inspector, f"Pay {CARD}") == {FindingKind.CARD}


async def test_death_during_a_scan_is_uninspectable(inspector: RequestInspector) -> None:
    await kinds(inspector, "hello")
    (pid,) = scanner_pids()
    os.kill(pid, signal.SIGSTOP)
    scan = asyncio.create_task(kinds(inspector, f"Pay {CARD}"))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    assert await scan == {FindingKind.UNINSPECTABLE}
    assert await kinds(inspector, f"Pay {CARD}") == {FindingKind.CARD}


async def test_scan_that_takes_too_long_is_uninspectable() -> None:
    inspector = RequestInspector(OwnWords, seconds=2)  # the warm-up has built their scanner
    try:
        await kinds(inspector, "hello")
        (pid,) = scanner_pids()
        os.kill(pid, signal.SIGSTOP)
        (finding,) = await inspector.scan([TextPart("prompt", "hello")])
        assert (finding.kind, finding.detector) == (FindingKind.UNINSPECTABLE, "time")
        assert scanner_pids() == []
    finally:
        inspector.close()


async def test_text_that_cannot_be_encoded_is_uninspectable(inspector: RequestInspector) -> None:
    assert await kinds(inspector, "\ud800 lone") == {FindingKind.UNINSPECTABLE}
    assert await kinds(inspector, f"Pay {CARD}") == {FindingKind.CARD}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer of processor time")
def test_processor_limit_ends_the_process_that_exceeds_it() -> None:
    code = (
        "from ingle.daemon.routing.inspection.scan_process import processor_limit\n"
        "with processor_limit(30.0): pass\n"
        "with processor_limit(0.05):\n"
        "    while True: pass"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=False)
    assert ran.returncode == -signal.SIGPROF


def test_daemon_side_loads_no_detector() -> None:
    code = (
        "import sys; from ingle.daemon.routing.inspection.request_inspector import *;"
        "print([m for m in sys.modules if m.split('.')[-1] in"
        " ('text_scanner', 'text_views', 'phonenumbers', 'ahocorasick_rs', 'numpy')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are confined on Linux only")
async def test_process_is_confined(inspector: RequestInspector) -> None:
    await kinds(inspector, "hello")
    (pid,) = scanner_pids()
    status = await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)
    assert "Seccomp:\t2" in status
