"""`ingle stop`: ends the daemon."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ...client.client_errors import DaemonSilent
from ...settings.config import Config, load_config
from ...terminal.terminal_output import print_json
from ..command_errors import CommandError
from ..command_parser import CommandParser
from ..daemon_launcher import running_daemon

POLL_INTERVAL = 0.02
WORKER_GRACE = 10.0
"""Seconds for the workers to end, in addition to the grace period of running answers."""


def main(arguments: Sequence[str]) -> int:
    """Stop the daemon and wait until its process has ended; raises `CommandError`."""
    parser = CommandParser(
        "stop", "End the daemon: running answers get a moment to finish, memory is freed."
    )
    options = parser.parse_args(arguments)
    pid = stop(load_config(os.environ))
    if options.json:
        print_json({"stopped": pid is not None, "pid": pid})
    elif pid is None:
        print("The daemon is not running.")
    else:
        print(f"Stopped the ingle daemon (pid {pid}).")
    return 0


def stop(config: Config) -> int | None:
    """End the daemon and wait until it is gone; return its process id, None if none ran.

    Raises `CommandError`.
    """
    try:
        client = running_daemon(config)
        if client is None:
            return None
        pid = client.status().pid
        client.post("/ingle/v1/shutdown", {}, dict)
    except DaemonSilent as error:
        raise CommandError(
            f"The daemon on {config.socket} does not answer, so it cannot be asked to stop.",
            "Find its process with `pgrep -f ingle.daemon.main`, and end it with `kill`.",
        ) from error
    _wait_gone(pid, config.shutdown_grace + WORKER_GRACE)
    return pid


def _wait_gone(pid: int, timeout: float) -> None:
    import psutil

    deadline = time.monotonic() + timeout
    try:
        # Compares the start time, so that another process with the same id is not waited for.
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The daemon (pid {pid}) has not ended after {timeout:.0f} s.",
                    f"`kill -9 {pid}` ends it at once.",
                )
            time.sleep(POLL_INTERVAL)
    except psutil.NoSuchProcess:
        return
