"""Measures an idle daemon's cost: before, with and after an idle model."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path

import psutil
from cpu_meter import spent, tree_usage
from machine import save
from startup import INGLE, healthy

SETTLE = 5.0
"""Seconds until the effects of a change of state are over."""
BUDGETS = {"cpu_seconds_in_ten_minutes": 0.1, "wakeups_a_second": 1.0}


@dataclass(frozen=True)
class Rest:
    """One period of idleness; `worker` figures are 0 without a worker."""

    state: str
    seconds: float
    cpu_seconds: float
    wakeups: int
    worker_cpu_seconds: float
    worker_wakeups: int
    workers: int
    resident_mib: float
    gpu_files: int

    @property
    def cpu_seconds_in_ten_minutes(self) -> float:
        """The daemon's own, as if it had been watched for so long."""
        return self.cpu_seconds * 600 / self.seconds

    @property
    def wakeups_a_second(self) -> float:
        """Of the daemon's threads."""
        return self.wakeups / self.seconds


def measure(state: str, daemon: int, seconds: float) -> Rest:
    """Look at the daemon twice, `seconds` apart, and at nothing in between."""
    before, began = tree_usage(daemon), time.perf_counter()
    time.sleep(seconds)
    elapsed, used = time.perf_counter() - began, spent(before, tree_usage(daemon))
    own, worker = used["server"], used.get("worker")
    process = psutil.Process(daemon)
    return Rest(
        state=state,
        seconds=round(elapsed, 3),
        cpu_seconds=round(own.seconds, 6),
        wakeups=own.sleeps,
        worker_cpu_seconds=round(worker.seconds, 6) if worker else 0.0,
        worker_wakeups=worker.sleeps if worker else 0,
        workers=len(process.children(recursive=True)),
        resident_mib=round(process.memory_info().rss / 2**20, 1),
        gpu_files=_gpu_files(daemon),
    )


@contextmanager
def daemon_of(home: Path) -> Generator[tuple[int, Path]]:
    """A daemon of its own, ended with the context: its process and its socket."""
    path = home / "ingle.sock"
    process = subprocess.Popen(
        [INGLE, "serve", "--port", "-1", "--socket", str(path)],
        env={**os.environ, "INGLE_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not healthy(path):
            time.sleep(0.01)
            if process.poll() is not None:
                sys.exit(f"ingle serve ended with status {process.returncode}")
        yield process.pid, path
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def post(path: Path, route: str, body: dict[str, object]) -> None:
    """One request over the unix socket, which has to succeed."""
    import socket

    connection = HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    try:
        connection.request("POST", route, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            sys.exit(f"{route}: {answer.status} {content.decode()}")
    finally:
        connection.close()


def use_model(path: Path, model: str) -> None:
    """Load it, and let it write one word."""
    messages = [{"role": "user", "content": "Hello"}]
    post(path, "/ingle/v1/load", {"model": model, "context": 512, "keep_alive": -1})
    post(path, "/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": 2})


def let_expire(path: Path, model: str, daemon: int) -> None:
    """Set its keep-alive to a second, and wait until its process is gone."""
    post(path, "/ingle/v1/load", {"model": model, "keep_alive": 1})
    deadline = time.monotonic() + 60
    while psutil.Process(daemon).children():
        if time.monotonic() > deadline:
            sys.exit("the model's process outlives its keep-alive")
        time.sleep(0.2)


def main() -> None:
    """Measure every state, print it, and fail if a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to watch each state")
    parser.add_argument("--model", help="a file to load and to let go (none: no model at all)")
    parser.add_argument("--after-only", action="store_true", help="watch only what comes last")
    parser.add_argument("--save", action="store_true", help="write results/idle.json")
    options = parser.parse_args()
    rests: list[Rest] = []
    with tempfile.TemporaryDirectory() as folder, daemon_of(Path(folder)) as (daemon, path):
        if not (options.after_only and options.model):
            time.sleep(SETTLE)
            rests.append(measure("no model yet", daemon, options.seconds))
        if options.model:
            model = str(Path(options.model).resolve())
            use_model(path, model)
            if not options.after_only:
                time.sleep(SETTLE)
                rests.append(measure("a model at rest", daemon, options.seconds))
            let_expire(path, model, daemon)
            time.sleep(SETTLE)
            rests.append(measure("after its keep-alive", daemon, options.seconds))
    for rest in rests:
        print(
            f"{rest.state:>20}: {rest.cpu_seconds_in_ten_minutes:.4f} s of CPU in ten minutes, "
            f"{rest.wakeups_a_second:.3f} wake-ups/s, {rest.workers} workers "
            f"({rest.worker_cpu_seconds:.4f} s, {rest.worker_wakeups} wake-ups), "
            f"{rest.resident_mib} MiB, {rest.gpu_files} GPU files"
        )
    if options.save:
        print(save("idle", {"rests": [asdict(rest) for rest in rests]}))
    over = [
        f"{rest.state}: {name} is {getattr(rest, name):.3f}, and may be {budget}"
        for rest in rests
        if not rest.workers
        for name, budget in BUDGETS.items()
        if getattr(rest, name) > budget
    ]
    sys.exit("; ".join(over) or 0)


def _gpu_files(pid: int) -> int:
    """Open device files of NVIDIA's driver: without one there is no context on a GPU."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            count += str(link.readlink()).startswith("/dev/nvidia")
        except OSError:  # closed as we looked
            continue
    return count


if __name__ == "__main__":
    main()
