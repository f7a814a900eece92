"""Names the system calls that a filter denied, to find what a driver of a GPU lacks.

Source: seccomp_unotify(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from typing import NoReturn

from .system_calls import ALLOWED, CHECKED, DENIED

_CLONE_FILES = 0x400
_PR_SET_PDEATHSIG = 1
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_REQUEST, _ANSWER = 80, "=QqiI"


class DeniedCallReporter:
    """Answers the denied calls of this process from a child process, and keeps their names.

    Make it before the process is confined; Linux only.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        listener, self._attached = os.pipe()
        # With the same descriptors: the listener cannot be sent to it once the filter is there.
        # No thread, since the caller may hold the interpreter's lock.
        libc = ctypes.CDLL(None, use_errno=True)
        clone = ctypes.c_long(_number("clone"))
        parent = os.getpid()
        pid = libc.syscall(
            clone, ctypes.c_long(_CLONE_FILES | signal.SIGCHLD), None, None, None, None
        )
        if pid < 0:
            failed = ctypes.get_errno()
            raise OSError(failed, os.strerror(failed))
        if pid == 0:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _supervise(parent, listener, self._writer)

    def attach(self, listener: int) -> None:
        """Answer the calls of the filter with this listener."""
        os.write(self._attached, struct.pack("=i", listener))

    def take(self) -> list[str]:
        """Return the names of the calls that were denied since the last time, each once."""
        try:
            content = os.read(self._reader, 1 << 16)
        except BlockingIOError:
            return []
        return list(dict.fromkeys(content.decode().split()))


def _supervise(parent: int, attached: int, names: int) -> NoReturn:
    """Have each denied call fail after its name is written."""
    import fcntl

    try:
        (listener,) = struct.unpack("=i", os.read(attached, 4))
        named = {_number(name): name for name in {**ALLOWED, **CHECKED, **DENIED} if _exists(name)}
        while True:
            request = bytearray(_REQUEST)
            try:
                fcntl.ioctl(listener, _RECEIVE, request)
            except (InterruptedError, FileNotFoundError):
                if os.getppid() != parent:
                    break  # it has ended
                continue
            (identity,) = struct.unpack_from("=Q", request)
            (number,) = struct.unpack_from("=i", request, 16)
            name = named.get(number, f"call-{number}")
            os.write(names, f"{name} ".encode())
            error = errno.ENOENT if name == "connect" else errno.EACCES
            try:
                fcntl.ioctl(listener, _SEND, struct.pack(_ANSWER, identity, 0, -error, 0))
            except FileNotFoundError:
                continue  # its process was interrupted
    except OSError as failed:
        print(f"Denied calls are no longer reported: {failed}.", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


def _number(name: str) -> int:
    number = {**ALLOWED, **CHECKED, **DENIED}[name][0 if platform.machine() == "x86_64" else 1]
    return -1 if number is None else number


def _exists(name: str) -> bool:
    return _number(name) >= 0
