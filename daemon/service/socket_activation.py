"""Inherits listening sockets from systemd (socket activation).

https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import MutableMapping
from contextlib import ExitStack
from pathlib import Path

import msgspec

from ..transport.sockets import SocketError

_FIRST = 3
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")


class InheritedSockets(msgspec.Struct, frozen=True):
    """The inherited sockets: the unix socket with its path, and the TCP one."""

    unix: socket.socket | None = None
    path: Path | None = None
    tcp: socket.socket | None = None


def inherited_sockets(
    environ: MutableMapping[str, str], *, first: int = _FIRST
) -> InheritedSockets:
    """Return the sockets that were passed to this process, if any.

    Removes the variables from the environment, since child processes inherit no sockets. Raises
    `SocketError` for a socket that other users or machines could use.
    """
    values = {name: environ.pop(name, "") for name in _VARIABLES}
    if values["LISTEN_PID"] != str(os.getpid()) or not values["LISTEN_FDS"].isdecimal():
        return InheritedSockets()
    with ExitStack() as undo:
        found = [_adopt(fd, undo) for fd in range(first, first + int(values["LISTEN_FDS"]))]
        unix = [each for each in found if each.family == socket.AF_UNIX]
        tcp = [each for each in found if each.family != socket.AF_UNIX]
        if len(unix) > 1 or len(tcp) > 1:
            raise _unfit("The service manager passed more than one socket of a kind.")
        path = Path(os.fsdecode(unix[0].getsockname())) if unix else None
        for each in tcp:
            _check_loopback(each)
        if path is not None:
            _check_private(path)
        undo.pop_all()
    return InheritedSockets(unix[0] if unix else None, path, tcp[0] if tcp else None)


def _unfit(message: str) -> SocketError:
    return SocketError(
        message, hint="`ingle service install` writes the socket unit that fits these settings."
    )


def _adopt(fd: int, undo: ExitStack) -> socket.socket:
    try:
        found = socket.socket(fileno=fd)
    except OSError as error:
        raise _unfit(f"The service manager passed no socket as descriptor {fd}.") from error
    undo.callback(found.close)
    found.set_inheritable(False)
    found.setblocking(False)
    listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if found.type != socket.SOCK_STREAM or not listens:
        raise _unfit(f"Descriptor {fd} from the service manager is not a listening socket.")
    return found


def _check_loopback(tcp: socket.socket) -> None:
    if tcp.family != socket.AF_INET or tcp.getsockname()[0] != "127.0.0.1":
        raise _unfit(
            f"The service manager listens on {tcp.getsockname()[0]}: other machines could use "
            "your models."
        )


def _check_private(path: Path) -> None:
    """Check that no other user can open or replace the socket."""
    try:
        own, folder = path.lstat(), path.parent.lstat()
    except OSError as error:
        raise _unfit(
            f"The service manager's socket {path} does not exist: {error.strerror}."
        ) from error
    ours = own.st_uid == folder.st_uid == os.geteuid()
    if not (ours and stat.S_ISSOCK(own.st_mode) and stat.S_ISDIR(folder.st_mode)):
        raise _unfit(f"The service manager's socket {path} belongs to another user.")
    if own.st_mode & 0o077 or folder.st_mode & 0o022:
        raise _unfit(f"Other users can open or replace the socket {path}.")
