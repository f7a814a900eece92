"""Resource limits and capabilities of a process that serves a model."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_OPEN_FILES = 4096
_DIES_FIRST = 500
_CAPABILITIES_VERSION_3 = 0x20080522
# Read other users' files, for a root's model (1 to 3), lock memory (14), set thread priority (23).
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 14 | 1 << 23
# Address space that threads reserve and never touch: stacks and arenas.
_FOR_ALL = 8 << 30
_FOR_A_THREAD = 128 << 20


def limit_process(*, address_space: int | None, file_size: int | None = None) -> None:
    """Forbid core dumps and new privileges, limit open files, and make it the OOM killer's first
    choice.

    Other processes of the user cannot read its memory. `address_space` bounds the bytes it can map,
    so that an excessive allocation fails instead of exhausting the machine, and `file_size` those
    of each file that it writes. Children inherit the limits.
    """
    if sys.platform == "win32":
        return
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if address_space is not None:
        lower_limit(resource.RLIMIT_AS, address_space)
    if file_size is not None:
        lower_limit(resource.RLIMIT_FSIZE, file_size)
    if sys.platform != "linux":
        return
    _die_first()
    # After the line above, its files in /proc belong to root.
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if os.geteuid() == 0:
        _keep_few_capabilities(libc)


def sane_address_space(mapped: int) -> int | None:
    """Return a bound: the machine's memory, `mapped` bytes of files, and thread reserves.

    None if the machine's memory is unknown.
    """
    if sys.platform != "linux":
        return None  # elsewhere the limit does not bound what matters
    import psutil

    try:
        memory = psutil.virtual_memory().total + psutil.swap_memory().total
    except OSError:
        return None
    return memory + 2 * mapped + _FOR_ALL + _FOR_A_THREAD * (os.cpu_count() or 1)


def lower_limit(which: int, value: int) -> None:
    """Lower a resource limit of this process, unless it is lower already."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(which)
    if hard == resource.RLIM_INFINITY or hard > value:
        try:
            resource.setrlimit(which, (value, value))
        except (OSError, ValueError):
            if sys.platform == "linux":  # macOS refuses some of these
                raise


def _keep_few_capabilities(libc: ctypes.CDLL) -> None:
    """Drop most capabilities that distinguish a root process from a user's."""
    header = struct.pack("=Ii", _CAPABILITIES_VERSION_3, 0)
    now = ctypes.create_string_buffer(24)
    if libc.capget(header, now) != 0:
        return
    effective, permitted, _, *_ = struct.unpack("=6I", now.raw)
    kept = struct.pack(
        "=6I", effective & _KEPT_CAPABILITIES, permitted & _KEPT_CAPABILITIES, 0, 0, 0, 0
    )
    libc.capset(header, kept)


def _die_first() -> None:
    """Make the kernel's OOM killer choose this process before those with irreplaceable data."""
    score = Path("/proc/self/oom_score_adj")
    try:
        if int(score.read_text()) < _DIES_FIRST:
            score.write_text(str(_DIES_FIRST))
    except (OSError, ValueError) as error:
        print(f"No place in the queue of the OOM killer: {error}.", file=sys.stderr)
