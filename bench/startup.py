"""How long things take to be there, beside the bare interpreter."""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import psutil
from machine import median, save

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BUDGETS = {"help": 0.15, "daemon_ready": 0.6, "first_frame": 0.03, "chat_live": 0.3}


def seconds(argv: list[str]) -> float:
    """Wall clock of one whole command."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def healthy(path: Path) -> bool:
    """Whether the daemon answers on its socket."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
            client.sendall(HEALTH)
            return client.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False


def daemon_ready(home: Path, *, idle: float) -> tuple[float, float]:
    """Seconds until /health answers, and MiB the daemon holds after `idle` seconds of rest."""
    path = home / "ingle.sock"
    start = time.perf_counter()
    daemon = subprocess.Popen(
        [INGLE, "serve", "--port", "-1", "--socket", str(path)],
        env={**os.environ, "INGLE_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not healthy(path):
        time.sleep(0.002)
        if daemon.poll() is not None:
            sys.exit(f"ingle serve ended with status {daemon.returncode}")
    ready = time.perf_counter() - start
    time.sleep(idle)
    memory = psutil.Process(daemon.pid).memory_full_info()
    daemon.send_signal(signal.SIGTERM)
    daemon.wait()
    return ready, getattr(memory, "pss", memory.rss) / 2**20


def chat_frames(home: Path) -> tuple[float, float]:
    """Seconds until the chat's first byte on the terminal, and until its live screen is there."""
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", INGLE_HOME=str(home))
        os.execv(INGLE, [INGLE])
    first = live = 0.0
    seen = b""
    while not live and time.perf_counter() - start < 20:
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        seen += os.read(terminal, 2**16)
        now = time.perf_counter() - start
        first = first or now
        # Textual asks for mouse reports when it takes the terminal over.
        live = now if b"\x1b[?1003h" in seen else 0.0
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return first, live


def main() -> None:
    """Measure, print, and with --save write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    figures: dict[str, list[float]] = {}
    memory: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for run in range(arguments.runs + 1):
            row = {
                "python": seconds([sys.executable, "-c", "pass"]),
                "help": seconds([INGLE, "--help"]),
            }
            row["daemon_ready"], resident = daemon_ready(home, idle=2.0)
            row["first_frame"], row["chat_live"] = chat_frames(home)
            subprocess.run(
                [INGLE, "stop"],
                env={**os.environ, "INGLE_HOME": folder},
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if run == 0:
                continue  # files and bytecode are warm from here on
            memory.append(resident)
            for name, value in row.items():
                figures.setdefault(name, []).append(value)
    python = median(figures["python"])
    report: dict[str, object] = {"runs": arguments.runs}
    for name, values in figures.items():
        middle = median(values)
        report[name] = {
            "milliseconds": round(middle * 1000, 1),
            "times_the_interpreter": round(middle / python, 1),
            "budget_milliseconds": BUDGETS.get(name, 0) * 1000 or None,
        }
        print(f"{name:14} {middle * 1000:8.1f} ms   {middle / python:6.1f} x python")
    report["daemon_idle_mib"] = round(median(memory), 1)
    print(f"{'daemon idle':14} {median(memory):8.1f} MiB")
    if arguments.save:
        print(save("startup", report))


if __name__ == "__main__":
    main()
