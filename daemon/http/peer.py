"""Who is at the other end of a connection: the kernel knows, and is asked at accept."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

TCP_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED = "01"

# macOS: <sys/un.h>, and struct xucred { u_int version; uid_t uid; short groups; gid_t group[16]; }
SOL_LOCAL = 0
LOCAL_PEERCRED = 1
LOCAL_PEERPID = 2
XUCRED_BYTES = 76


@dataclass(frozen=True)
class Connection:
    """One accepted connection; `uid` is None where the kernel did not tell.

    `port` is ours, for comparing with the Host header. `abort` drops the connection with all that
    waits to be sent, which a close would wait for. `pid` is the process at the other end of a unix
    socket.
    """

    kind: Literal["unix", "tcp"]
    uid: int | None
    port: int | None
    abort: Callable[[], None]
    pid: int | None = None


class PeerSocket(Protocol):
    """What the event loops show of an accepted socket."""

    @property
    def family(self) -> int:
        """The address family."""
        ...

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """The raw bytes of a socket option."""
        ...

    def getpeername(self) -> object:
        """The other end's address."""
        ...

    def getsockname(self) -> object:
        """Our end's address."""
        ...


def identify(peer: PeerSocket, abort: Callable[[], None]) -> Connection:
    """Look up the peer of a connection that was just accepted."""
    if sys.platform != "win32" and peer.family == socket.AF_UNIX:
        return Connection("unix", _unix_uid(peer), None, abort, _unix_pid(peer))
    try:
        client, server = peer.getpeername(), peer.getsockname()
    except OSError:  # the client has left already
        return Connection("tcp", None, None, abort)
    match client, server:
        case (str(their_host), int(their_port)), (str(our_host), int(our_port)):
            uid = tcp_uid((their_host, their_port), (our_host, our_port))
            return Connection("tcp", uid, our_port, abort)
        case _:
            return Connection("tcp", None, None, abort)


def tcp_uid(
    client: tuple[str, int], server: tuple[str, int], tables: tuple[Path, ...] = TCP_TABLES
) -> int | None:
    """The owner of the client's end of an IPv4 connection on this machine, None where unknown.

    Only a row in state ESTABLISHED counts: one that is closing says uid 0 whoever owned it.
    """
    for table, mapped in zip(tables, (False, True), strict=True):
        wanted = (_hex_address(client, mapped=mapped), _hex_address(server, mapped=mapped))
        try:
            rows = table.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for row in rows:
            columns = row.split(maxsplit=8)
            if len(columns) > 7 and (columns[1], columns[2]) == wanted:
                return int(columns[7]) if columns[3] == ESTABLISHED else None
    return None


def _hex_address(address: tuple[str, int], *, mapped: bool) -> str:
    """An address as the kernel prints it: 32-bit words in the machine's byte order, in hex."""
    packed = socket.inet_aton(address[0])
    if mapped:
        packed = bytes(10) + b"\xff\xff" + packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _unix_uid(peer: PeerSocket) -> int | None:
    try:
        if sys.platform == "linux":
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return struct.unpack("=iII", credentials)[1]
        if sys.platform == "darwin":
            credentials = peer.getsockopt(SOL_LOCAL, LOCAL_PEERCRED, XUCRED_BYTES)
            return struct.unpack_from("2I", credentials)[1]
    except (OSError, struct.error):
        return None
    return None


def _unix_pid(peer: PeerSocket) -> int | None:
    try:
        if sys.platform == "linux":
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return struct.unpack("=iII", credentials)[0]
        if sys.platform == "darwin":
            return struct.unpack("=i", peer.getsockopt(SOL_LOCAL, LOCAL_PEERPID, 4))[0]
    except (OSError, struct.error):
        return None
    return None
