"""The daemon's listening sockets, bound here so that modes and owners are checked."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from ..client.client_errors import UserError
from ..settings.paths import Paths, UnsafeFolder, make_private_folder

BACKLOG = 256
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - the check for a key, a flag and TLS is in `exposure`
"""Wildcard addresses, which no client can connect to."""
NOT_OURS = 0
"""The `inode` of a socket file that another program created, and removes."""
LONGEST_PATH = 103 if sys.platform == "darwin" else 107


class SocketError(UserError):
    """The daemon cannot listen at the configured address."""


class PortInUse(SocketError):
    """Another program listens on the TCP port."""

    exit_status = 3


class UnixListener(msgspec.Struct, frozen=True):
    """A bound unix socket, and its file."""

    socket: socket.socket
    path: Path
    inode: int

    def close(self) -> None:
        """Stop listening, and remove the file unless another has replaced it."""
        self.socket.close()
        with suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self.inode:
                self.path.unlink()


def bind_unix(path: Path, paths: Paths) -> UnixListener:
    """Listen on `path` as 0600 in a folder only this user can write; call it under the home's lock.

    Raises `SocketError` and `UnsafeFolder`.
    """
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SocketError(
            f"The socket's path is longer than the allowed {LONGEST_PATH} bytes: {path}.",
            hint="Choose a shorter one with `--socket`, or a shorter INGLE_HOME.",
        )
    _prepare_folder(path.parent, paths)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode must be right from the start: a later chmod would leave a gap.
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise SocketError(
            f"The socket {path} cannot be created: {error.strerror}.",
            hint="Choose another path with `--socket`.",
        ) from error
    finally:
        os.umask(before)
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        listener.close()
        raise SocketError(
            f"Another program replaced {path} with a file of its own.",
            hint="Choose a folder of your own with `--socket`.",
        )
    listener.setblocking(False)
    listener.listen(BACKLOG)
    return UnixListener(listener, path, found.st_ino)


def bind_tcp(host: str, port: int) -> socket.socket:
    """Listen on the loopback interface; port 0 takes any free one.

    Raises `PortInUse`, and `SocketError` for an address that other machines could reach.
    """
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise SocketError(
            f"ingle listens on 127.0.0.1 only: on {host}, other machines could use your models.",
            hint="To reach it from elsewhere, use a tunnel: `ssh -L 4645:127.0.0.1:4645 HOST`.",
        )
    return bind_exposed("127.0.0.1" if host == "localhost" else host, port)


def bind_exposed(host: str, port: int) -> socket.socket:
    """Listen on any address of this machine; the caller has checked that this is wanted.

    `::` stands for all addresses, IPv4 included. Raises `PortInUse` and `SocketError`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio turns Nagle's algorithm off only for such connections.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        if sys.platform != "win32":
            # After a restart old connections linger for a minute; except on Windows this allows
            # binding beside them and still refuses a port that another program listens on.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Port {port} on {host} is in use by {_owner_of(port)}.",
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
    # We must not chmod a folder that the user chose, but no other user may write to it.
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SocketError(
            f"The socket's folder {folder} cannot be created: {error.strerror}.",
            hint="Choose another path with `--socket` or INGLE_SOCKET.",
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UnsafeFolder(
            f"The socket's folder {folder} is a link, or other users can write to it.",
            "Choose a folder of your own with `--socket`, or `chmod go-w` this one.",
        )


def _remove_stale(path: Path) -> None:
    """Remove the socket of a killed daemon at `path`; raises if it is live or another kind
    of file.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketError(
            f"{path} exists and is not a socket.",
            hint="Remove it, or choose another path with `--socket`.",
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
        hint="Choose another path with `--socket`.",
    )


def _owner_of(port: int) -> str:
    """Return the listening program's name and process id, if the system reports them."""
    import psutil

    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and connection.laddr and connection.laddr[1] == port:
                if connection.pid is None:
                    break
                name = psutil.Process(connection.pid).name()
                return f"the program '{name}' (process {connection.pid})"
    return "another program"
