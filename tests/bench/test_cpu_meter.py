"""CPU time by process role, measured over a process tree."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from cpu_meter import CpuUse, spent, tree_usage


def test_tree_usage_lists_every_process() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'timeit', '-n', '1', '-r', '1', 'import time', 'time.sleep(30)'])"  # noqa: E501
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        # A child has its parent's command line until it has become its own program.
        while {role for _, role in tree_usage(parent.pid)} != {"server", "timeit"}:
            time.sleep(0.01)
    finally:
        for pid, _ in tree_usage(parent.pid):
            os.kill(pid, 9)
        parent.wait()
    assert tree_usage(parent.pid) == {}


def test_own_cpu_time_grows_while_computing() -> None:
    before = tree_usage(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert spent(before, tree_usage(os.getpid()))["server"].seconds >= 0.05


def test_spent_time_is_summed_by_role_including_new_processes() -> None:
    before = {(1, "worker"): CpuUse(1.0, 0.5, 10)}
    after = {(1, "worker"): CpuUse(3.0, 1.0, 15), (2, "worker"): CpuUse(0.25, 0.0, 2)}
    assert spent(before, after) == {"worker": CpuUse(2.25, 0.5, 7)}
