"""`ProcessorTime`, of processes that share one processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from ingle.backends.worker.supervisor.processor_time import ProcessorTime

SPIN = "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nwhile True: pass"


@pytest.fixture
def two_on_one_processor() -> Iterator[list[int]]:
    with ExitStack() as stack:
        spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
        for each in spinning:
            stack.callback(each.wait)
            stack.callback(each.kill)
        yield [each.pid for each in spinning]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep no account of it")
def test_wait_for_a_processor_is_counted_and_a_stop_is_not(two_on_one_processor: list[int]) -> None:
    pid = two_on_one_processor[0]
    used = ProcessorTime(pid)
    while used.waited() < 0.02 or used.computed() == 0:
        time.sleep(0.01)
    os.kill(pid, signal.SIGSTOP)
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    before = used.waited(), used.computed()
    time.sleep(0.05)
    assert (used.waited(), used.computed()) == before


def test_of_a_process_that_has_ended_nothing_is_known() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    used = ProcessorTime(ended.pid)
    assert (used.computed(), used.waited()) == (0.0, 0.0)
