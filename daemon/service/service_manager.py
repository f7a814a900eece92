"""`ServiceManager`: what starts the daemon on this platform, and the files that tell it to."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec


class ServiceFile(msgspec.Struct, frozen=True):
    """A file that the system reads, and all that it holds."""

    path: Path
    content: bytes


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """A service as the system knows it; null where the system does not answer."""

    enabled: bool | None = None
    running: bool | None = None
    lingers: bool | None = None
    """Whether it goes on when nobody is logged in."""


class ServiceManager(Protocol):
    """One platform's way; `ran` says whether ingle's authors have seen it run there."""

    name: str
    ran: bool

    def files(self) -> list[ServiceFile]:
        """All of them, as they should be."""
        ...

    def trouble(self) -> str:
        """Why nothing can be started or stopped here; "" where it can."""
        ...

    def start(self) -> None:
        """Have the system read the files and begin to listen; raises `ServiceFailed`."""
        ...

    def stop(self) -> None:
        """End the service and have the system forget it; raises `ServiceFailed`."""
        ...

    def state(self) -> ServiceState:
        """What the system says."""
        ...

    def hints(self) -> list[str]:
        """Sentences for whoever installed it."""
        ...


class ServiceFailed(Exception):
    """The system did not do what it was asked to."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
