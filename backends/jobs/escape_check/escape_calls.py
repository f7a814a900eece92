"""System calls that Python does not offer, and attempts in a forked child."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable

from ...confinement.system_calls import ALLOWED, CHECKED, DENIED


def system_call(name: str, *arguments: object) -> int:
    """Make a system call by its name; raises OSError."""
    numbers = {**ALLOWED, **CHECKED, **DENIED}[name]
    number = numbers[0 if platform.machine() == "x86_64" else 1]
    if number is None:
        raise OSError(38, f"there is no {name}")
    # Whole registers: a variadic call leaves the high half of a smaller number undefined.
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    made = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *wide)
    if made == -1:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return int(made)


def in_child(action: Callable[[], object]) -> None:
    """Make an attempt in a forked process, which ends; raises the OSError that stopped it."""
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            action()
            status = 0
        except OSError as error:
            status = error.errno or 255
        finally:
            os._exit(status)
    _, ended = os.waitpid(pid, 0)
    status = os.waitstatus_to_exitcode(ended)
    if status:
        raise OSError(status, os.strerror(status))
