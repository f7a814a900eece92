"""Installs, removes and inspects the daemon as a service of the system, on any platform."""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import msgspec

from ..client.client_errors import UserError
from ..stores.atomic_file import write_atomically
from .launch_command import LaunchCommand

Runner = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]
_PATIENCE = 60


class ServiceFile(msgspec.Struct, frozen=True):
    """A file of the service manager, and its whole content."""

    path: Path
    content: bytes

    def status(self) -> FileStatus:
        """Compare the file with this content."""
        found = None
        with suppress(OSError):
            found = self.path.read_bytes()
        return FileStatus(str(self.path), found is not None, found == self.content)


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """A service as the service manager reports it; null if it does not answer."""

    enabled: bool | None = None
    running: bool | None = None
    lingers: bool | None = None
    """Whether it keeps running when the user is logged out."""


class FileStatus(msgspec.Struct, frozen=True):
    """A file of the service: `as_wanted` is whether it has the content that installing now would
    write.
    """

    path: str
    exists: bool
    as_wanted: bool


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the service; `trouble` says why the service manager could not be queried."""

    system: str
    ran: bool
    installed: bool
    current: bool
    files: list[FileStatus]
    state: ServiceState
    trouble: str = ""


class ServiceFailed(UserError):
    """A file cannot be written, or the service manager reported a failure."""


def run_command(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Return the program's output, whatever its status; status 127 if it is not installed."""
    program = shutil.which(command[0])
    if program is None:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]} is not installed")
    try:
        return subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "it does not answer")


class ServiceManager(ABC):
    """The service manager of one platform; `ran` is whether ingle's authors have tested it
    there.
    """

    name: ClassVar[str]
    ran: ClassVar[bool] = False

    def __init__(
        self, launch: LaunchCommand, environ: Mapping[str, str], run: Runner = run_command
    ) -> None:
        self._launch = launch
        self._environ = environ
        self._run = run

    @abstractmethod
    def files(self) -> list[ServiceFile]:
        """Return all files of the service with their expected content."""

    @abstractmethod
    def trouble(self) -> str:
        """Return why nothing can be started or stopped here; "" if it can."""

    @abstractmethod
    def start(self) -> None:
        """Load the files and start listening; raises `ServiceFailed`."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the service and remove it from the service manager; raises `ServiceFailed`."""

    @abstractmethod
    def state(self) -> ServiceState:
        """Return the state that the service manager reports."""

    @abstractmethod
    def hints(self) -> list[str]:
        """Return sentences to print after the installation."""

    def write_files(self) -> list[str]:
        """Write the files that differ from their expected content; return their paths.

        Raises `ServiceFailed`.
        """
        written: list[str] = []
        for file in self.files():
            if file.status().as_wanted:
                continue
            try:
                write_atomically(file.path, file.content, mode=0o644)
            except OSError as error:
                raise ServiceFailed(f"{file.path} cannot be written: {error.strerror}.") from error
            written.append(str(file.path))
        return written

    def remove_files(self) -> list[str]:
        """Remove the files that exist; return their paths. Raises `ServiceFailed`."""
        removed: list[str] = []
        for file in self.files():
            with suppress(FileNotFoundError):
                try:
                    file.path.unlink()
                except PermissionError as error:
                    raise ServiceFailed(
                        f"{file.path} cannot be removed: {error.strerror}."
                    ) from error
                removed.append(str(file.path))
        return removed

    def status(self) -> ServiceStatus:
        """Inspect the files and query the service manager."""
        files = [file.status() for file in self.files()]
        trouble = self.trouble()
        return ServiceStatus(
            system=self.name,
            ran=self.ran,
            installed=all(file.exists for file in files),
            current=all(file.as_wanted for file in files),
            files=files,
            state=ServiceState() if trouble else self.state(),
            trouble=trouble,
        )

    def _works(self, *command: str) -> bool:
        return self._run(command).returncode == 0

    def _must(self, *command: str) -> None:
        """Run a command; raises `ServiceFailed` with its last line of output if it fails."""
        done = self._run(command)
        if done.returncode != 0:
            words = (done.stderr or done.stdout).strip().splitlines()
            reason = words[-1] if words else f"exit status {done.returncode}"
            raise ServiceFailed(
                f"`{' '.join(command)}` failed: {reason.rstrip('.')}.",
                "The files are written; `ingle service uninstall` removes them.",
            )
