"""What can go wrong between a kernel's source and its result.

KernelError
├── CompileFailed      a compiler refused a source, or none is there
├── DriverUnavailable  no NVIDIA driver or no GPU
└── LaunchFailed       a kernel did not start, or did not end well
"""

from __future__ import annotations


class KernelError(Exception):
    """A failure with a sentence for people, and where possible what to do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class CompileFailed(KernelError):
    """A source could not be compiled; the message ends with what the compiler said."""


class DriverUnavailable(KernelError):
    """Nothing can be run on a GPU here."""


class LaunchFailed(KernelError):
    """A kernel did not start, or did not end well."""
