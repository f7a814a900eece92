"""A launchd agent, started when its user logs in (macOS; not yet run)."""

from __future__ import annotations

import os
import plistlib
from pathlib import Path

from .launch_command import LaunchCommand
from .service_manager import ServiceFile, ServiceManager, ServiceState

LABEL = "org.ingle.daemon"


class LaunchdService(ServiceManager):
    """The launchd agent of one user."""

    name = "launchd"

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    @property
    def _path(self) -> Path:
        return Path.home() / "Library/LaunchAgents" / f"{LABEL}.plist"

    def files(self) -> list[ServiceFile]:
        """See `ServiceManager`."""
        return [ServiceFile(self._path, agent(self._launch))]

    def trouble(self) -> str:
        """See `ServiceManager`."""
        answers = self._works("launchctl", "print", self._domain)
        return "" if answers else "No launchd session of yours is running here."

    def start(self) -> None:
        """See `ServiceManager`."""
        self._run(["launchctl", "bootout", f"{self._domain}/{LABEL}"])  # it may not exist
        self._must("launchctl", "bootstrap", self._domain, str(self._path))

    def stop(self) -> None:
        """See `ServiceManager`."""
        self._must("launchctl", "bootout", f"{self._domain}/{LABEL}")

    def state(self) -> ServiceState:
        """See `ServiceManager`."""
        done = self._run(["launchctl", "print", f"{self._domain}/{LABEL}"])
        known = done.returncode == 0
        return ServiceState(enabled=known, running=known and "state = running" in done.stdout)

    def hints(self) -> list[str]:
        """See `ServiceManager`."""
        return [f"Its log is {self._launch.config.paths.log}."]


def agent(launch: LaunchCommand) -> bytes:
    """Return the property list of the agent."""
    log = str(launch.config.paths.log)
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(launch.command),
            "EnvironmentVariables": launch.environment,
            "WorkingDirectory": "/",
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ProcessType": "Interactive",
            "ExitTimeOut": round(launch.config.shutdown_grace) + 15,
            "Umask": 0o077,
            "HardResourceLimits": {"Core": 0},
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
    )
