"""The owner of a TCP connection's other end on macOS; written from documentation, not yet run.

macOS has no table that all users may read. `proc_listpids` (libproc.h) lists the processes of one
user, and psutil reads a process's sockets through `proc_pidfdinfo`, which works for the user's own:
so either a process of this user holds the other end, or its owner is unknown.
"""

from __future__ import annotations

import ctypes
import ctypes.util

from .peer_procfs import Endpoint

PROC_UID_ONLY = 4
"""<sys/proc_info.h>: processes of one effective user."""

_PID_BYTES = 4
_SPARE = 64
"""Spare entries for processes that start between the two calls."""


def tcp_uid(client: Endpoint, server: Endpoint, uid: int) -> int | None:
    """Return `uid` if a process of that user holds the client's end of the connection, else
    None.
    """
    import psutil

    for pid in _processes_of(uid):
        try:
            connections = psutil.Process(pid).net_connections("tcp")
        except (psutil.Error, OSError):
            continue  # it has ended, or is protected: then its owner is unknown
        for one in connections:
            if tuple(one.laddr) == client and tuple(one.raddr) == server:
                return uid if one.status == psutil.CONN_ESTABLISHED else None
    return None


def _processes_of(uid: int) -> list[int]:
    library = ctypes.CDLL(ctypes.util.find_library("proc"))
    size = library.proc_listpids(PROC_UID_ONLY, uid, None, 0)
    if size <= 0:
        return []
    pids = (ctypes.c_int * (size // _PID_BYTES + _SPARE))()
    filled = library.proc_listpids(PROC_UID_ONLY, uid, pids, ctypes.sizeof(pids))
    return [pid for pid in pids[: max(0, filled) // _PID_BYTES] if pid > 0]
