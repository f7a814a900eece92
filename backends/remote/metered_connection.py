"""The bytes of one connection, counted as the system takes them."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from dataclasses import dataclass, field
from typing import Protocol

from .errors import ProviderUnreachable

PIECE = 64 * 2**10
"""Bytes that are read or encrypted at a time."""


NEXT_ADDRESS_AFTER = 2.0
"""Seconds that one of several addresses has to take a connection."""


@dataclass(eq=False)
class Meter:
    """Counts what one connection sends and receives; `digest` is over all that was sent."""

    sent: int = 0
    received: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)  # pyright: ignore[reportPrivateUsage]

    def sends(self, data: bytes | memoryview) -> None:
        """Note what has left."""
        self.sent += len(data)
        self.digest.update(data)


Address = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]
"""As `getaddrinfo` gives it."""


class CouldNotConnect(ProviderUnreachable):
    """There was never a connection, so that nothing was sent: it may be tried again."""


class MeteredConnection(Protocol):
    """A connection; `OSError` where it breaks."""

    async def send(self, data: bytes) -> None:
        """Hand all of it to the system, and count what it took even if this is cancelled."""
        ...

    async def receive(self) -> bytes:
        """Some bytes; none at the end."""
        ...

    def close(self) -> None:
        """Let go of it at once, whatever was not sent."""
        ...


async def open_channel(
    host: str, port: int, tls: ssl.SSLContext | None, meter: Meter, seconds: float
) -> MeteredConnection:
    """A connection to one of the host's addresses.

    Raises `CouldNotConnect`, and `ProviderUnreachable` where the host cannot be trusted.
    """
    try:
        async with asyncio.timeout(seconds):
            sock = await _connect(host, port)
            if tls is None:
                return _PlainChannel(sock, meter)
            try:
                reader, writer = await asyncio.open_connection(
                    sock=sock, ssl=tls, server_hostname=host
                )
            except BaseException:
                sock.close()
                raise
            return _EncryptedChannel(reader, writer, meter)
    except TimeoutError:
        raise CouldNotConnect(
            f"{host} did not take the connection within {seconds:g} seconds.",
            hint="Is the network there, and the address right?",
        ) from None
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise ProviderUnreachable(
            f"{host} cannot be trusted: {reason}.",
            hint="A server of your own needs its certificates in `ca_file`.",
        ) from error
    except OSError as error:
        raise CouldNotConnect(
            f"{host} cannot be reached: {error.strerror or error}.",
            hint="Is the network there, and the address right?",
        ) from error


async def resolve(host: str, port: int) -> list[Address]:
    """The host's addresses, the best first."""
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _connect(host: str, port: int) -> socket.socket:
    """A socket to the first of the host's addresses that takes it."""
    loop = asyncio.get_running_loop()
    failure = OSError("it has no address")
    found = await resolve(host, port)
    for number, (family, kind, protocol, _, address) in enumerate(found, start=1):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            # One that swallows what is sent to it must not hide the others.
            async with asyncio.timeout(None if number == len(found) else NEXT_ADDRESS_AFTER):
                await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
    raise failure


class _PlainChannel:
    """Without encryption: each byte is counted when the kernel has it, and never before.

    Not a transport of asyncio's, which goes on sending what it was given after an abort.
    """

    def __init__(self, sock: socket.socket, meter: Meter) -> None:
        self._socket = sock
        self._meter = meter

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                count = self._socket.send(rest)
            except BlockingIOError:
                await self._writable()
                continue
            self._meter.sends(rest[:count])
            rest = rest[count:]

    async def receive(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self._socket, PIECE)
        self._meter.received += len(data)
        return data

    def close(self) -> None:
        self._socket.close()

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._socket, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._socket)


class _EncryptedChannel:
    """With encryption: what is to be encrypted counts, a piece of it when it is handed over."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meter: Meter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._meter = meter
        # So that a piece is with the system before the next one is counted; uvloop never goes on
        # where `high` is 0.
        writer.transport.set_write_buffer_limits(high=1, low=0)

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]
            self._meter.sends(piece)
            self._writer.write(piece)
            await self._writer.drain()

    async def receive(self) -> bytes:
        data = await self._reader.read(PIECE)
        self._meter.received += len(data)
        return data

    def close(self) -> None:
        self._writer.transport.abort()
