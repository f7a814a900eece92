"""Interface of the platforms' service managers, and the files that they read."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec


class ServiceFile(msgspec.Struct, frozen=True):
    """A file of the service manager, and its whole content."""

    path: Path
    content: bytes


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """A service as the service manager reports it; null if it does not answer."""

    enabled: bool | None = None
    running: bool | None = None
    lingers: bool | None = None
    """Whether it keeps running when the user is logged out."""


class ServiceManager(Protocol):
    """The service manager of one platform; `ran` is whether ingle's authors have tested it
    there.
    """

    name: str
    ran: bool

    def files(self) -> list[ServiceFile]:
        """Return all files with their expected content."""
        ...

    def trouble(self) -> str:
        """Return why nothing can be started or stopped here; "" if it can."""
        ...

    def start(self) -> None:
        """Load the files and start listening; raises `ServiceFailed`."""
        ...

    def stop(self) -> None:
        """Stop the service and remove it from the service manager; raises `ServiceFailed`."""
        ...

    def state(self) -> ServiceState:
        """Return the state that the service manager reports."""
        ...

    def hints(self) -> list[str]:
        """Return sentences for the user who installed it."""
        ...


class ServiceFailed(Exception):
    """The service manager reported a failure."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
