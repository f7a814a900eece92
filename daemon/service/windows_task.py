"""A task of the Windows Task Scheduler, started when its user logs on (not yet run)."""

from __future__ import annotations

import subprocess
from pathlib import Path, PureWindowsPath
from xml.sax.saxutils import escape

from .launch_command import LaunchCommand
from .service_manager import ServiceFile, ServiceManager, ServiceState

TASK = "ingle"


class WindowsTask(ServiceManager):
    """The scheduled task of one user, whose name is in `environ`."""

    name = "Task Scheduler"

    @property
    def _path(self) -> Path:
        return self._launch.config.paths.state / "service.xml"

    def files(self) -> list[ServiceFile]:
        """See `ServiceManager`."""
        domain, user = self._environ.get("USERDOMAIN", ""), self._environ.get("USERNAME", "")
        name = f"{domain}\\{user}" if domain else user
        return [ServiceFile(self._path, task(self._launch, name))]

    def trouble(self) -> str:
        """See `ServiceManager`."""
        answers = self._works("schtasks", "/Query", "/FO", "LIST")
        return "" if answers else "The task scheduler does not answer."

    def start(self) -> None:
        """See `ServiceManager`."""
        self._must("schtasks", "/Create", "/F", "/TN", TASK, "/XML", str(self._path))
        self._must("schtasks", "/Run", "/TN", TASK)

    def stop(self) -> None:
        """See `ServiceManager`."""
        self._run(["schtasks", "/End", "/TN", TASK])  # it may not be running
        self._must("schtasks", "/Delete", "/F", "/TN", TASK)

    def state(self) -> ServiceState:
        """See `ServiceManager`."""
        done = self._run(["schtasks", "/Query", "/TN", TASK, "/FO", "LIST"])
        known = done.returncode == 0
        return ServiceState(enabled=known, running=known and "Running" in done.stdout)

    def hints(self) -> list[str]:
        """See `ServiceManager`."""
        return ["Clients need a key on Windows: `ingle key new` creates one."]


def task(launch: LaunchCommand, user: str) -> bytes:
    """Return the task as XML, in UTF-16 as the scheduler exports it.

    A task has no environment, so a custom home is set by a shell command.
    """
    program, *arguments = launch.command
    line = subprocess.list2cmdline(arguments)
    if launch.environment:
        settings = " && ".join(
            f'set "{name}={value}"' for name, value in launch.environment.items()
        )
        line = f'/d /s /c "{settings} && "{program}" {line}"'
        program = "%ComSpec%"
    else:
        windowless = PureWindowsPath(program)
        if windowless.name.lower() == "python.exe":  # else a console window stays open
            program = str(windowless.with_name("pythonw.exe"))
    return f"""\
<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>ingle, the local language model daemon</Description>
  </RegistrationInfo>
  <Triggers>
    <LogonTrigger>
      <Enabled>true</Enabled>
      <UserId>{escape(user)}</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>{escape(user)}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>3</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>{escape(program)}</Command>
      <Arguments>{escape(line)}</Arguments>
    </Exec>
  </Actions>
</Task>
""".encode("utf-16")
