"""TCP and TLS connections that count the bytes sent and received."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from dataclasses import dataclass, field
from typing import Protocol

from .errors import ProviderUnreachable

CHUNK = 64 * 2**10
"""Bytes that are read or encrypted at a time."""


NEXT_ADDRESS_AFTER = 2.0
"""Seconds before the next of several addresses is tried."""


@dataclass(eq=False)
class Meter:
    """Counts the bytes of one connection; `digest` is over all that was sent."""

    sent: int = 0
    received: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)  # pyright: ignore[reportPrivateUsage]

    def add_sent(self, data: bytes | memoryview) -> None:
        """Count bytes that were sent."""
        self.sent += len(data)
        self.digest.update(data)


Address = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]
"""An address as `getaddrinfo` returns it."""


class CouldNotConnect(ProviderUnreachable):
    """No connection was made and nothing was sent, so the request may be retried."""


class MeteredConnection(Protocol):
    """A byte connection; its methods raise `OSError` if it breaks."""

    async def send(self, data: bytes) -> None:
        """Send all of `data`, and count what the system accepted even if this is cancelled."""
        ...

    async def receive(self) -> bytes:
        """Return some bytes; none at the end."""
        ...

    def close(self) -> None:
        """Close at once and drop unsent data."""
        ...


async def open_connection(
    host: str, port: int, tls: ssl.SSLContext | None, meter: Meter, seconds: float
) -> MeteredConnection:
    """Connect to one of the host's addresses.

    Raises `CouldNotConnect`, and `ProviderUnreachable` if the host's certificate is not trusted.
    """
    try:
        async with asyncio.timeout(seconds):
            sock = await _connect(host, port)
            if tls is None:
                return _PlainConnection(sock, meter)
            try:
                reader, writer = await asyncio.open_connection(
                    sock=sock, ssl=tls, server_hostname=host
                )
            except BaseException:
                sock.close()
                raise
            return _TlsConnection(reader, writer, meter)
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
    """Return the host's addresses, the preferred first."""
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _connect(host: str, port: int) -> socket.socket:
    """Return a socket to the first of the host's addresses that accepts it."""
    loop = asyncio.get_running_loop()
    failure = OSError("it has no address")
    found = await resolve(host, port)
    for number, (family, kind, protocol, _, address) in enumerate(found, start=1):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            # An address that drops packets must not delay the others.
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


class _PlainConnection:
    """Connection without encryption: each byte is counted once the kernel has accepted it.

    Not an asyncio transport, which would keep sending its buffer after an abort.
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
            self._meter.add_sent(rest[:count])
            rest = rest[count:]

    async def receive(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self._socket, CHUNK)
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


class _TlsConnection:
    """TLS connection: plaintext is counted chunk by chunk as it is handed over."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meter: Meter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._meter = meter
        # Each chunk must reach the system before the next is counted; uvloop never resumes if
        # `high` is 0.
        writer.transport.set_write_buffer_limits(high=1, low=0)

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK):
            chunk = data[start : start + CHUNK]
            self._meter.add_sent(chunk)
            self._writer.write(chunk)
            await self._writer.drain()

    async def receive(self) -> bytes:
        data = await self._reader.read(CHUNK)
        self._meter.received += len(data)
        return data

    def close(self) -> None:
        self._writer.transport.abort()
