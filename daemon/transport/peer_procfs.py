"""The kernel's table of TCP connections in `/proc`."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

TCP_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
OPEN_STATES = frozenset({"01", "04", "05"})
"""Established, and the two in which an end has only finished sending."""

Endpoint = tuple[str, int]
"""An address without brackets, and a port."""


def tcp_uid(
    client: Endpoint, server: Endpoint, tables: tuple[Path, ...] = TCP_TABLES
) -> int | None:
    """Return the uid that owns the client's end of a loopback connection; None if unknown.

    Only a row with an inode counts: a closing one reports uid 0 for any owner.
    """
    for table, wide in zip(tables, (False, True), strict=True):
        if ":" in client[0] and not wide:
            continue
        try:
            wanted = (_hex_address(client, wide=wide), _hex_address(server, wide=wide))
            rows = table.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for row in rows:
            columns = row.split(maxsplit=10)
            if len(columns) > 9 and (columns[1], columns[2]) == wanted:
                is_open = columns[3] in OPEN_STATES and columns[9] != "0"
                return int(columns[7]) if is_open else None
    return None


def _hex_address(address: Endpoint, *, wide: bool) -> str:
    """Return an address as the kernel prints it: 32-bit words in host byte order, in hex."""
    if ":" in address[0]:
        packed = socket.inet_pton(socket.AF_INET6, address[0].partition("%")[0])
    else:
        packed = (bytes(10) + b"\xff\xff" if wide else b"") + socket.inet_aton(address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
