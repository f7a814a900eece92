"""Starts the daemon in the background if a command needs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.client_errors import DaemonUnreachable
from ..service.launch_command import SERVE, absolute_home
from ..settings.config import Config
from ..settings.paths import is_locked
from ..stores.log_files import open_log
from ..terminal.terminal_output import print_status
from .command_errors import CommandError

if TYPE_CHECKING:
    from ..client.sync_client import DaemonClient

START_TIMEOUT = 15.0
POLL_INTERVAL = 0.02
SHOWN_LOG_LINES = 8


def ensure_daemon(
    config: Config,
    *,
    say: Callable[[str], None] = print_status,
    command: tuple[str, ...] = SERVE,
    timeout: float = START_TIMEOUT,
) -> DaemonClient:
    """Return a client of the running daemon, starting it if needed; raises `CommandError`.

    Concurrent commands are safe: one starts the daemon, the others wait for it.
    """
    client = _client(config)
    if client.answers() and not _may_be_replaced(client, say):
        return client
    config.paths.make_private()
    deadline = time.monotonic() + timeout
    with _start_lock(config.paths.runtime / "start.lock", deadline):
        # Another command may have started it meanwhile.
        if client.answers() and _may_be_replaced(client, lambda _: None):
            from .server.stop import stop

            say("The old one is idle: it ends, and the new one starts.")
            stop(config)  # has no effect if it has ended by itself
            deadline = time.monotonic() + timeout
        # If the lock is held without a socket, a daemon is being started manually, or is ending.
        while not client.answers():
            if not is_locked(config.paths.lock):
                pid = _start(config, client, command, deadline)
                if pid is not None:
                    say(f"Started the ingle daemon (pid {pid}).")
                    _warn_of_taken_port(config, client, say)
                break
            _pause_until(deadline, config)
    return client


def running_daemon(config: Config) -> DaemonClient | None:
    """Return a client of the daemon if it runs, else None; raises `CommandError` if it does not
    answer.
    """
    client = _client(config)
    return client if client.answers() else None


def _client(config: Config) -> DaemonClient:
    from ..client.sync_client import DaemonClient

    return DaemonClient(config.socket)


def _warn_of_taken_port(config: Config, client: DaemonClient, say: Callable[[str], None]) -> None:
    """Warn of a port in use: commands work without TCP, but an editor would reach the other
    program.
    """
    if config.port >= 0 and client.status().address is None:
        say(f"Another program uses port {config.port}: only ingle's own commands reach the daemon.")
        say("For editors set INGLE_PORT to a free one (0 takes any), then `ingle stop`.")


def _may_be_replaced(client: DaemonClient, say: Callable[[str], None]) -> bool:
    """Whether the daemon is older than this command, and idle.

    A newer one belongs to another installation, and stays. One that is ending is replaced, too.
    """
    from importlib import metadata  # takes milliseconds, which a chat has not until its screen

    installed = metadata.version("ingle")
    try:
        status = client.status()
        running = status.version
        if running == installed:
            return False
        pulls = client.models().pulls
    except DaemonUnreachable:
        return True
    say(f"The running daemon is ingle {running}, this command is {installed}.")
    busy = any(model.running or model.waiting for model in status.models)
    if _number(running) < _number(installed) and not busy and not pulls:
        return True
    say("`ingle stop` ends the old one; the next command starts the new one.")
    return False


def _number(version: str) -> tuple[int, ...]:
    """Return the numbers of "0.10.2" for comparison, without a suffix."""
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])[:3]))


def _pause_until(deadline: float, config: Config) -> None:
    if time.monotonic() > deadline:
        raise CommandError(
            f"A daemon holds {config.paths.lock}, but does not answer on {config.socket}.",
            f"Its log is in {config.paths.log}; end its process if it hangs.",
        )
    time.sleep(POLL_INTERVAL)


@contextmanager
def _start_lock(path: Path, deadline: float) -> Generator[None, None, None]:
    """Allow one starter at a time; the lock ends with the process that holds it."""
    import fcntl

    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise CommandError(
                        "Another command has been starting the daemon for too long.",
                        f"Look for a process that holds {path}.",
                    ) from None
                time.sleep(POLL_INTERVAL)
        yield


def _start(
    config: Config, client: DaemonClient, command: tuple[str, ...], deadline: float
) -> int | None:
    """Start the daemon and wait until it answers; None if another one was faster."""
    log = config.paths.log
    try:
        file = open_log(log)
    except OSError as error:
        raise CommandError(
            f"The daemon's log {log} cannot be written: {error.strerror}.",
            "Free space for it, or set INGLE_HOME to a folder of your own.",
        ) from error
    with file as output:
        start_of_log = output.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=os.sep,  # it must not keep a folder busy, nor import packages from one
            env={**os.environ, **absolute_home(os.environ)},
            start_new_session=True,
        )
    # A chat may outlive the daemon it started, which would remain a zombie if not waited for.
    threading.Thread(target=process.wait, daemon=True).start()
    while time.monotonic() < deadline:
        if client.answers(timeout=max(1.0, deadline - time.monotonic())):
            # Ours may not have noticed yet that another one was faster.
            return process.pid if client.status().pid == process.pid else None
        if process.poll() is not None and not is_locked(config.paths.lock):
            if client.answers():  # the faster one appeared between the two checks
                return None
            raise CommandError(
                f"The daemon ended during its start (exit status {process.returncode}).",
                f"{_last_words(log, start_of_log)}\nThe whole log is in {log}.".lstrip(),
            )
        time.sleep(POLL_INTERVAL)
    raise CommandError(
        f"The daemon (pid {process.pid}) started, but does not answer on {config.socket}.",
        f"Its log is in {log}.",
    )


def _last_words(log: Path, start: int) -> str:
    """Return the last lines that the daemon printed since `start`, or why there are none."""
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", "replace").splitlines()
    if not lines and shutil.disk_usage(log.parent).free == 0:
        return f"The disk that holds {log.parent} is full."
    return "\n".join(line for line in lines[-SHOWN_LOG_LINES:] if line.strip())
