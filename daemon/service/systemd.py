"""systemd user units: a socket that always listens, and the daemon, started on demand."""

from __future__ import annotations

import os
from pathlib import Path

from .launch_command import LaunchCommand
from .service_manager import ServiceFile, ServiceManager, ServiceState

SOCKET, SERVICE = "ingle.socket", "ingle.service"
_GRACE = 15
"""Seconds for workers to stop, in addition to the grace period of running answers."""

HARDENING = """\
# What a user's own manager can enforce without a namespace of its own. Rules about the file system
# are left out: they would need one, in which the driver of a GPU or the chat's socket in the
# runtime folder may be missing. Nor is writable code forbidden (MemoryDenyWriteExecute): engines
# compile for the processor they run on. Models are confined further by ingle itself.
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallErrorNumber=EPERM
UMask=0077
LimitCORE=0
"""


class SystemdService(ServiceManager):
    """The systemd units of one user."""

    name = "systemd"
    ran = True

    def files(self) -> list[ServiceFile]:
        """See `ServiceManager`."""
        base = Path(self._environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        folder = base / "systemd/user"
        return [
            ServiceFile(folder / SOCKET, socket_unit(self._launch).encode()),
            ServiceFile(folder / SERVICE, service_unit(self._launch).encode()),
        ]

    def trouble(self) -> str:
        """See `ServiceManager`."""
        done = self._run(["systemctl", "--user", "show-environment"])
        if done.returncode == 127:
            return "There is no systemd here."
        if done.returncode != 0:
            return "Your user's systemd is not running here, as in a container, or after `su`."
        return ""

    def start(self) -> None:
        """See `ServiceManager`."""
        self._must("systemctl", "--user", "daemon-reload")
        self._must("systemctl", "--user", "enable", SOCKET, SERVICE)
        self._must("systemctl", "--user", "restart", SOCKET)
        if self._launch.config.preload:
            self._must("systemctl", "--user", "start", SERVICE)

    def stop(self) -> None:
        """See `ServiceManager`."""
        self._must("systemctl", "--user", "disable", "--now", SOCKET, SERVICE)

    def state(self) -> ServiceState:
        """See `ServiceManager`."""
        if self.trouble():
            return ServiceState()
        lingering = self._run(["loginctl", "show-user", str(os.getuid()), "-P", "Linger"])
        return ServiceState(
            enabled=self._works("systemctl", "--user", "is-enabled", SOCKET),
            running=self._works("systemctl", "--user", "is-active", SERVICE),
            lingers=lingering.stdout.strip() == "yes" if lingering.returncode == 0 else None,
        )

    def hints(self) -> list[str]:
        """See `ServiceManager`."""
        hints = ["`journalctl --user -u ingle` shows its log."]
        if self.state().lingers is False:
            hints.append("It stops when you log out; `loginctl enable-linger` keeps it running.")
        return hints


def socket_unit(launch: LaunchCommand) -> str:
    """Return the socket unit, which listens so that the daemon starts on the first connection."""
    config = launch.config
    # Addresses reachable from other machines are bound by the daemon, after its own checks.
    by_systemd = config.port > 0 and config.host == "127.0.0.1"
    tcp = f"ListenStream=127.0.0.1:{config.port}\n" if by_systemd else ""
    return f"""\
# Written by `ingle service install`, which writes it anew; changes of yours go into a drop-in
# (`systemctl --user edit {SOCKET}`).
[Unit]
Description=Sockets of ingle, the local language model daemon

[Socket]
ListenStream={_escaped(str(config.socket))}
{tcp}SocketMode=0600
DirectoryMode=0700
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""


def service_unit(launch: LaunchCommand) -> str:
    """Return the unit of the daemon."""
    command = " ".join(_quoted(word).replace("$", "$$") for word in launch.command)
    # The socket's path depends on the login; the daemon must use the one that is listened on.
    variables = {**launch.environment, "INGLE_SOCKET": str(launch.config.socket)}
    environment = "".join(
        f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items()
    )
    grace = round(launch.config.shutdown_grace) + _GRACE
    eager = "\n[Install]\nWantedBy=default.target\n" if launch.config.preload else _ON_DEMAND
    return f"""\
# Written by `ingle service install`, which writes it anew; changes of yours go into a drop-in
# (`systemctl --user edit {SERVICE}`).
[Unit]
Description=ingle, the local language model daemon
Requires={SOCKET}
After={SOCKET}

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}WorkingDirectory=/
Restart=on-failure
RestartSec=1
WatchdogSec=120
# Answers that run get `shutdown_grace`, then models write down what they computed.
TimeoutStopSec={grace}
KillMode=mixed
# A model that the system ends for its memory must not take the daemon along.
OOMPolicy=continue
{HARDENING}{eager}"""


_ON_DEMAND = f"""
[Install]
# Nothing is loaded at login, so the socket is enough.
Also={SOCKET}
"""


def _escaped(text: str) -> str:
    """Escape a value, in which systemd expands percent signs."""
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """Quote one word of a command line or of an assignment."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escaped(inner)}"'
