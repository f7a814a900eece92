"""Runs one program, run as `python -P -m`, and leaves no process of it behind.

It ends the program and all that it started, also in sessions of their own, when the program ends,
on SIGTERM, and when its own parent dies. Not on Windows.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

VARIABLE = "INGLE_GUARDED_PROGRAM"
"""The environment variable with the program as JSON: arguments could be read by other users."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_AWAITED = {signal.SIGTERM, getattr(signal, "SIGCHLD", signal.SIGTERM)}
_ROUNDS = 200
NOT_STARTED = 127


class GuardedProgram(msgspec.Struct, frozen=True):
    """What to run, with all of its environment; it can write `writes` only, if that is set."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    writes: list[str] | None = None


def main() -> NoReturn:
    """Run the program and exit with its status."""
    if sys.platform == "win32":
        raise SystemExit("not on this system")
    program = msgspec.json.decode(os.environ.pop(VARIABLE), type=GuardedProgram)
    guard, parent = os.getpid(), os.getppid()
    # Waited for, not handled: a second one must not interrupt the work of the first.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # else macOS discards it
    _control(_PR_SET_CHILD_SUBREAPER, 1)
    _control(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(NOT_STARTED)
    pid = os.fork()
    if pid == 0:
        _become(program, guard)
    while signal.sigwait(_AWAITED) == signal.SIGCHLD:
        for ended, status in _ended_children():
            if ended == pid:
                code = os.waitstatus_to_exitcode(status)
                _end(code if code >= 0 else 128 - code, pid)
    _end(128 + signal.SIGTERM, pid)


def _ended_children() -> Iterator[tuple[int, int]]:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def _become(program: GuardedProgram, guard: int) -> NoReturn:
    """Confine this process and execute the program."""
    try:
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        os.setpgid(0, 0)  # what it sends to its group does not reach the guard
        os.chdir(program.folder)
        arguments = program.arguments
        if program.writes is not None:
            arguments = _confine(program, [Path(path) for path in program.writes])
        _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(NOT_STARTED)
        os.execvpe(arguments[0], arguments, program.environment)  # noqa: S606
    except OSError as error:
        print(f"{program.arguments[0]}: {error.strerror or error}", file=sys.stderr, flush=True)
    finally:
        os._exit(NOT_STARTED)


def _confine(program: GuardedProgram, writes: list[Path]) -> list[str]:
    """Return the arguments to execute, with the limits in force or added to them."""
    from ingle.backends.confinement.command_sandbox import confine_command, sandbox_profile

    if sys.platform == "darwin":
        return ["/usr/bin/sandbox-exec", "-p", sandbox_profile(writes), *program.arguments]
    confine_command(writes, program.environment.get("PATH", ""))
    return program.arguments


def _end(status: int, group: int) -> NoReturn:
    """Kill what is left, and exit."""
    import psutil

    with suppress(OSError):  # only Linux gives the guard the orphans
        os.killpg(group, signal.SIGKILL)
    own = psutil.Process()
    for _ in range(_ROUNDS):
        left = own.children(recursive=True)
        if not left:
            break
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        with suppress(ChildProcessError):
            os.wait()
    os._exit(status)


def _control(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
