"""The sockets the daemon listens on, bound by us: modes and owners are checked, never assumed."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from ..settings.paths import Paths, UnsafeFolder, make_private_folder

BACKLOG = 256
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - the check for a key, a flag and TLS is in `exposure`
"""All addresses, and so none that a client could mean."""
NOT_OURS = 0
"""The `inode` of a socket file that somebody else made, and removes."""
LONGEST_PATH = 103 if sys.platform == "darwin" else 107


class SocketError(Exception):
    """The daemon cannot listen where it was told to."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class PortInUse(SocketError):
    """Somebody else listens on the TCP port."""

    exit_status = 3


@dataclass(frozen=True)
class UnixListener:
    """A bound unix socket, and the file that has to go with it."""

    socket: socket.socket
    path: Path
    inode: int

    def close(self) -> None:
        """Stop listening, and remove the file unless somebody put another in its place."""
        self.socket.close()
        try:
            if self.path.lstat().st_ino == self.inode:
                self.path.unlink()
        except FileNotFoundError:
            return


def bind_unix(path: Path, paths: Paths) -> UnixListener:
    """Listen on `path` as 0600 in a folder nobody else can write; call it under the home's lock.

    Raises `SocketError` and `UnsafeFolder`.
    """
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SocketError(
            f"The socket's path is longer than the {LONGEST_PATH} bytes a system allows: {path}.",
            hint="Choose a shorter one with `--socket`, or a shorter INGLE_HOME.",
        )
    _prepare_folder(path.parent, paths)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode must be right from the first moment on: a chmod afterwards would leave a gap.
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise SocketError(
            f"The socket {path} cannot be made: {error.strerror}.",
            hint="Choose another place with `--socket`.",
        ) from error
    finally:
        os.umask(before)
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        listener.close()
        raise SocketError(
            f"Somebody put another file in the place of {path}.",
            hint="Choose a folder of your own with `--socket`.",
        )
    listener.setblocking(False)
    listener.listen(BACKLOG)
    return UnixListener(listener, path, found.st_ino)


def bind_tcp(host: str, port: int) -> socket.socket:
    """Listen on the loopback interface; port 0 takes any free one.

    Raises `PortInUse`, and `SocketError` for an address other machines could reach.
    """
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise SocketError(
            f"ingle listens on 127.0.0.1 only, not on {host}: any machine could use your models.",
            hint="Reach it from elsewhere through a tunnel: `ssh -L 4645:127.0.0.1:4645 HOST`.",
        )
    return bind_exposed("127.0.0.1" if host == "localhost" else host, port)


def bind_exposed(host: str, port: int) -> socket.socket:
    """Listen on any address of this machine; whoever calls it has checked that this is wanted.

    `::` stands for all addresses, those of IPv4 too. Raises `PortInUse` and `SocketError`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        if sys.platform != "win32":
            # After a restart the old connections linger for a minute; elsewhere than on Windows
            # this lets us bind beside them and still refuses a port that somebody listens on.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Port {port} on {host} is taken by {_owner_of(port)}.",
                hint="Choose another with `--port`; `--port 0` takes any free one, "
                "`--port -1` listens on the unix socket only.",
            ) from error
        raise SocketError(
            f"Port {port} on {host} cannot be used: {error.strerror}.",
            hint="Choose another with `--port`; `--host` must be an address of this machine.",
        ) from error
    listener.setblocking(False)
    return listener


def _prepare_folder(folder: Path, paths: Paths) -> None:
    if folder in (paths.runtime, paths.socket.parent):
        make_private_folder(folder)
        return
    # A folder of the user's choice is not ours to chmod, but nobody else may write to it.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UnsafeFolder(
            f"The socket's folder {folder} is a link, or others can write to it.",
            "Choose a folder of your own with `--socket`, or `chmod go-w` this one.",
        )


def _remove_stale(path: Path) -> None:
    """Clear what a killed daemon left at `path`; a live socket or another kind of file stays."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketError(
            f"{path} exists and is not a socket.",
            hint="Remove it, or choose another place with `--socket`.",
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink()
            return
    raise SocketError(
        f"Another program listens on {path}.",
        hint="Choose another place with `--socket`.",
    )


def _owner_of(port: int) -> str:
    """The listening program, where the system tells us."""
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and connection.laddr and connection.laddr[1] == port:
                if connection.pid is None:
                    break
                name = psutil.Process(connection.pid).name()
                return f"the program '{name}' (process {connection.pid})"
    except (psutil.Error, OSError):
        return "another program"
    return "another program"
