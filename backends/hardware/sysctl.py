"""Reads values of macOS's `sysctl`."""

from __future__ import annotations

import ctypes


def sysctl_number(name: str) -> int | None:
    """Return an integer of 4 or 8 bytes; None for an unknown name."""
    value, size = ctypes.c_uint64(0), ctypes.c_size_t(8)
    failed = ctypes.CDLL(None).sysctlbyname(
        name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)
    )
    return None if failed else value.value


def sysctl_text(name: str) -> str:
    """Return a string; empty for an unknown name."""
    buffer = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(buffer))
    failed = ctypes.CDLL(None).sysctlbyname(
        name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)
    )
    return "" if failed else buffer.value.decode("utf-8", "replace")
