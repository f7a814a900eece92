"""Identifies the process at the other end of a connection, when it is accepted."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from .peer_procfs import Endpoint, tcp_uid

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

# macOS: <sys/un.h>, and struct xucred { u_int version; uid_t uid; short groups; gid_t group[16]; }
SOL_LOCAL = 0
LOCAL_PEERCRED = 1
LOCAL_PEERPID = 2
XUCRED_BYTES = 76


class PeerConnection(msgspec.Struct, frozen=True):
    """One accepted connection; `uid` is None if the kernel did not report it.

    `port` is the local one, to compare with the Host header. `abort` drops the connection with all
    unsent data, for which a close would wait. `pid` is the process at the other end of a unix
    socket, `address` the host at that of a TCP connection.
    """

    kind: Literal["unix", "tcp"]
    uid: int | None
    port: int | None
    abort: Callable[[], None]
    pid: int | None = None
    address: str | None = None


def identify(peer: socket.socket | TransportSocket, abort: Callable[[], None]) -> PeerConnection:
    """Identify the peer of a connection that was just accepted."""
    if sys.platform != "win32" and peer.family == socket.AF_UNIX:
        uid, pid = _unix_credentials(peer)
        return PeerConnection("unix", uid, None, abort, pid)
    if (ends := _tcp_ends(peer)) is None:
        return PeerConnection("tcp", None, None, abort)
    client, server = ends
    return PeerConnection("tcp", tcp_owner(client, server), server[1], abort, address=client[0])


def still_reads(peer: socket.socket | TransportSocket) -> bool:
    """Whether a peer that sends no more still has its end open, and so waits for an answer.

    False if that is unknown, as for a peer on another machine.
    """
    if sys.platform != "linux":
        return False
    if peer.family == socket.AF_UNIX:
        import select

        poll = select.poll()
        poll.register(peer.fileno(), 0)  # a closed other end is reported all the same
        return not poll.poll(0)
    found = _tcp_ends(peer)
    return found is not None and tcp_owner(*found) is not None


def endpoint(address: object) -> Endpoint | None:
    """Return host and port of a socket's address; IPv4-mapped IPv6 addresses as IPv4."""
    if not isinstance(address, tuple):
        return None  # of a unix socket
    match cast("tuple[object, ...]", address)[:2]:  # IPv6 has two more
        case (str(host), int(port)):
            return host.removeprefix("::ffff:") if "." in host else host, port
        case _:
            return None


def is_loopback(address: object) -> bool:
    """Whether only this machine can reach a socket's address."""
    found = endpoint(address)
    return found is not None and (found[0] == "::1" or found[0].startswith("127."))


def own_uid() -> int:
    """Return the uid of this process, to compare with a peer's."""
    # Windows reports no uid of a peer, so there is nothing to compare with.
    return -1 if sys.platform == "win32" else os.geteuid()


def tcp_owner(client: Endpoint, server: Endpoint) -> int | None:
    """Return the uid that owns the client's end of a loopback connection; None if unknown."""
    if sys.platform == "darwin":
        from . import peer_macos

        return peer_macos.tcp_uid(client, server, os.geteuid())
    if sys.platform == "linux":
        from .peer_sock_diag import diag_uid

        try:
            return diag_uid(client, server)
        except OSError:
            return tcp_uid(client, server)  # a kernel or a sandbox without sock_diag
    return None


def _tcp_ends(peer: socket.socket | TransportSocket) -> tuple[Endpoint, Endpoint] | None:
    """Return the client's end of a connection, and ours; None if it is closed already."""
    try:
        client, server = endpoint(peer.getpeername()), endpoint(peer.getsockname())
    except OSError:
        return None
    return None if client is None or server is None else (client, server)


def _unix_credentials(peer: socket.socket | TransportSocket) -> tuple[int | None, int | None]:
    """Return the uid and the process id at the other end of a unix socket; None if unknown."""
    try:
        if sys.platform == "linux":
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("=iII", credentials)
            return uid, pid
        if sys.platform == "darwin":
            credentials = peer.getsockopt(SOL_LOCAL, LOCAL_PEERCRED, XUCRED_BYTES)
            uid = struct.unpack_from("2I", credentials)[1]
            return uid, struct.unpack("=i", peer.getsockopt(SOL_LOCAL, LOCAL_PEERPID, 4))[0]
    except (OSError, struct.error):
        return None, None
    return None, None
