"""Errors of compiling, loading and launching kernels.

KernelError
├── CompileFailed      a compiler refused a source, or none is there
├── DriverUnavailable  no NVIDIA driver or no GPU
└── LaunchFailed       a kernel did not start, or did not end well
"""

from __future__ import annotations


class KernelError(Exception):
    """A failed kernel operation, with a message for the user and, if possible, a hint."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CompileFailed(KernelError):
    """A source did not compile; the message ends with the compiler's output."""


class DriverUnavailable(KernelError):
    """There is no NVIDIA driver or no GPU."""


class LaunchFailed(KernelError):
    """A kernel failed to start or to finish."""
