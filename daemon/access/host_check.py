"""The Host header: whoever asks must have meant this daemon, and no name that leads here."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers

from ..errors import Forbidden
from ..transport.peer import PeerConnection

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
# A unix socket has no name of its own, so clients put a made-up one into their URL.
UNIX_NAMES = LOOPBACK_NAMES | {"ingle"}


class HostCheck:
    """Compares the Host header with the names this machine has, and those that are configured."""

    def __init__(self, allowed_hosts: Collection[str] = ()) -> None:
        """`allowed_hosts` are names or addresses without a port, an IPv6 one in brackets."""
        self._tcp_names = LOOPBACK_NAMES | frozenset(allowed_hosts)

    def check(self, connection: PeerConnection, headers: Headers) -> None:
        """Raise `Forbidden` for another name, for none, and for more than one.

        A page that resolves its own name to this machine still has to send that name.
        """
        hosts = headers.getlist("host")
        names = UNIX_NAMES if connection.kind == "unix" else self._tcp_names
        if len(hosts) == 1:
            host = hosts[0].lower()
            if host in names:
                return
            name, _, port = host.rpartition(":")
            if name in names and (connection.kind == "unix" or port == str(connection.port)):
                return
        raise Forbidden(
            "The Host header must name this machine as 127.0.0.1, localhost or [::1].",
            hint="Use http://127.0.0.1 with the daemon's port in the client's settings; another "
            "name or address of this machine has to be listed in `allowed_hosts`.",
            code="host_not_allowed",
        )
