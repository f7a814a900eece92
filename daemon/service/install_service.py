"""Installs, removes and inspects the service on any platform."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from ..settings.config import Config
from ..stores.atomic_file import write_atomically
from .launch_command import launch_of
from .launchd import LaunchdService
from .service_manager import ServiceFailed, ServiceFile, ServiceManager, ServiceState
from .systemd import SystemdService
from .windows_task import WindowsTask


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


def service_system(config: Config, environ: Mapping[str, str]) -> ServiceManager:
    """Return the service manager of this platform."""
    launch = launch_of(config, environ)
    if sys.platform == "win32":
        return WindowsTask(launch, environ)
    if sys.platform == "darwin":
        return LaunchdService(launch, os.getuid())
    return SystemdService(launch, environ)


def file_status(file: ServiceFile) -> FileStatus:
    """Compare a file with its expected content."""
    try:
        content = file.path.read_bytes()
    except OSError:
        return FileStatus(str(file.path), exists=False, as_wanted=False)
    return FileStatus(str(file.path), exists=True, as_wanted=content == file.content)


def write_files(system: ServiceManager) -> list[str]:
    """Write the files that differ from their expected content; return their paths. Raises
    `ServiceFailed`.
    """
    written: list[str] = []
    for file in system.files():
        if file_status(file).as_wanted:
            continue
        try:
            write_atomically(file.path, file.content, mode=0o644)
        except OSError as error:
            raise ServiceFailed(f"{file.path} cannot be written: {error.strerror}.") from error
        written.append(str(file.path))
    return written


def remove_files(system: ServiceManager) -> list[str]:
    """Remove the files that exist; return their paths. Raises `ServiceFailed`."""
    removed: list[str] = []
    for file in system.files():
        with suppress(FileNotFoundError):
            try:
                file.path.unlink()
            except PermissionError as error:
                raise ServiceFailed(f"{file.path} cannot be removed: {error.strerror}.") from error
            removed.append(str(file.path))
    return removed


def status_of(system: ServiceManager) -> ServiceStatus:
    """Inspect the files and query the service manager."""
    files = [file_status(file) for file in system.files()]
    trouble = system.trouble()
    return ServiceStatus(
        system=system.name,
        ran=system.ran,
        installed=all(file.exists for file in files),
        current=all(file.as_wanted for file in files),
        files=files,
        state=ServiceState() if trouble else system.state(),
        trouble=trouble,
    )
