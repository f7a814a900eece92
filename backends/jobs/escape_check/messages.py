"""Messages of the process that attempts to escape, one JSON object per line."""

from __future__ import annotations

import msgspec


class EscapeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The targets, made by the parent, and whether the process is confined, and as with a GPU.

    `secret` is a file in the folder `outside`; `own` and `other` are folders of the KV store `kv`.
    `address` is that of a byte of the parent's memory. `tcp` and `udp` are ports of this
    machine, `stream` and `datagrams` paths of sockets, `abstract` the name of one.
    """

    outside: str
    secret: str
    kv: str
    address: int
    tcp: int
    udp: int
    stream: str
    abstract: str
    datagrams: str
    drives_gpu: bool = False
    confined: bool = True


class EscapeAttempt(msgspec.Struct, frozen=True, kw_only=True, tag="attempt"):
    """One attempt that ended; `error` is what stopped it.

    `known` is why it is not stopped in this mode; "" if it should be.
    """

    name: str
    kind: str
    stopped: bool
    error: str = ""
    known: str = ""


class EscapesAttempted(msgspec.Struct, frozen=True, tag="end"):
    """All attempts were made."""
