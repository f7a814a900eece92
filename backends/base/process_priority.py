"""Lets interactive programs of the machine compute before a process of ours."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

STEPS = 5
"""The daemon takes so many steps of niceness, its child processes twice as many."""

_AUTOGROUP = Path("/proc/self/autogroup")
_BELOW_NORMAL_PRIORITY_CLASS = 0x4000
# setiopolicy_np: the disk, for the whole process, behind what a person waits for.
_MACOS_UTILITY_IO = (0, 0, 4)


def yield_to_interactive() -> None:
    """Lower the priority of this process for the processor and, where it is separate, for I/O."""
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        kernel.SetPriorityClass(
            ctypes.c_void_p(kernel.GetCurrentProcess()), _BELOW_NORMAL_PRIORITY_CLASS
        )
        return
    # Linux derives the priority of I/O from it.
    nice = os.nice(STEPS)
    if sys.platform == "darwin":
        ctypes.CDLL(None).setiopolicy_np(*_MACOS_UTILITY_IO)
    elif sys.platform == "linux":
        # Where the kernel groups processes by session, only this counts between two sessions.
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(str(nice), encoding="ascii")
