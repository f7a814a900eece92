"""The sockets that the daemon listens on."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys

import msgspec

from ..access.exposure import check_exposure
from ..service.socket_activation import InheritedSockets
from ..settings.config import Config
from ..transport.peer import is_loopback
from ..transport.sockets import (
    NOT_OURS,
    WILDCARDS,
    PortInUse,
    SocketError,
    UnixListener,
    bind_exposed,
    bind_tcp,
    bind_unix,
)

log = logging.getLogger("ingle.daemon")


class Listeners(msgspec.Struct, frozen=True):
    """The daemon's listening sockets."""

    unix: UnixListener | None
    tcp: socket.socket | None
    lan: socket.socket | None = None
    """A listener for other machines, if that is not what `tcp` listens on."""

    @property
    def sockets(self) -> list[socket.socket]:
        """All of them."""
        unix = [self.unix.socket] if self.unix is not None else []
        return unix + [one for one in (self.tcp, self.lan) if one is not None]

    @property
    def address(self) -> str | None:
        """Host and port of TCP as seen from this machine."""
        if self.tcp is None:
            return None
        host, port = self.tcp.getsockname()[:2]
        if host in WILDCARDS:
            return f"127.0.0.1:{port}"
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        """Stop listening and remove the socket's file."""
        if self.unix is not None:
            self.unix.close()
        for one in self.sockets:
            one.close()


def listen(config: Config, inherited: InheritedSockets, *, tcp_optional: bool) -> Listeners:
    """Take over the sockets of the service manager, and open the others.

    Raises `PortInUse` and `SocketError`.
    """
    check_exposure(config)
    with contextlib.ExitStack() as bound:
        tcp = inherited.tcp
        if tcp is None and config.port >= 0:
            tcp = _listen_on_tcp(config, optional=tcp_optional)
        lan = None
        if tcp is not None:
            bound.callback(tcp.close)
            if not is_loopback((config.host, 0)) and config.host not in WILDCARDS:
                lan = bind_exposed(config.host, tcp.getsockname()[1])
                bound.callback(lan.close)
        unix = _listen_on_unix(config, inherited)
        bound.pop_all()
    return Listeners(unix, tcp, lan)


def _listen_on_unix(config: Config, inherited: InheritedSockets) -> UnixListener | None:
    if sys.platform == "win32":
        return None
    if inherited.unix is None or inherited.path is None:
        return bind_unix(config.socket, config.paths)
    if inherited.path != config.socket:
        raise SocketError(
            f"The service manager listens on {inherited.path}, not on {config.socket}.",
            hint="`ingle service install` rewrites the unit.",
        )
    return UnixListener(inherited.unix, inherited.path, NOT_OURS)


def _listen_on_tcp(config: Config, *, optional: bool) -> socket.socket | None:
    """Listen on loopback, or on all addresses if configured: they cannot share a port."""
    try:
        if config.host in WILDCARDS:
            return bind_exposed(config.host, config.port)
        local = config.host if is_loopback((config.host, 0)) else "127.0.0.1"
        return bind_tcp(local, config.port)
    except PortInUse as error:
        if not optional or sys.platform == "win32":
            raise
        log.warning("%s Only the unix socket is served.", error.message)
        return None
