"""What a process that serves a model may use, and what it must not leave behind."""

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
# Files of other users that a root's model may be in (1 to 3), locked memory (14), threads (23).
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 14 | 1 << 23
# Address space that is asked for and never touched: stacks and arenas of threads.
_FOR_ALL = 8 << 30
_FOR_A_THREAD = 128 << 20


def limit_process(*, address_space: int | None) -> None:
    """No core dumps, no new privileges, few files, and the first to go when memory runs out.

    No other process of the user may read this one's memory. `address_space` bounds what it can
    map, in bytes: what asks for more gets none, rather than the machine's last. The limits go on
    to children.
    """
    if sys.platform == "win32":
        return
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if address_space is not None:
        _lower(resource.RLIMIT_AS, address_space)
    if sys.platform != "linux":
        return
    _die_first()
    # Behind the line above: the files in /proc of a process like this belong to root.
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if os.geteuid() == 0:
        _keep_few_capabilities(libc)


def sane_address_space(mapped: int) -> int | None:
    """All memory of the machine, `mapped` bytes of files, and what threads never touch.

    None where nobody says how much memory there is.
    """
    if sys.platform != "linux":
        return None  # the limit does not bound what matters elsewhere
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
    memory = (sizes.get("MemTotal", 0) + sizes.get("SwapTotal", 0)) << 10
    if not memory:
        return None
    return memory + 2 * mapped + _FOR_ALL + _FOR_A_THREAD * (os.cpu_count() or 1)


def _lower(which: int, value: int) -> None:
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
    """Take from a root's process most of what makes root more than a user."""
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
    """Have the kernel end this process before any that holds what cannot be made again."""
    score = Path("/proc/self/oom_score_adj")
    try:
        if int(score.read_text()) < _DIES_FIRST:
            score.write_text(str(_DIES_FIRST))
    except (OSError, ValueError) as error:
        print(f"No place in the queue of the OOM killer: {error}.", file=sys.stderr)
