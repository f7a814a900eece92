"""One HTTP/1.1 request on a connection of its own, every byte of it counted.

No pool, no redirects, no cookies, no settings of the environment: what leaves is what is here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from .errors import ProviderMisbehaved, ProviderUnreachable
from .metered_connection import Meter, MeteredConnection, open_channel

LARGEST_HEAD = 64 * 2**10
"""Bytes of an answer's status line and headers."""

_LONGEST_QUOTE = 200


@dataclass(frozen=True)
class HttpTimeouts:
    """Seconds until there is a connection, until the answer begins, and between its pieces."""

    connect: float
    first_byte: float
    idle: float


class HttpResponse:
    """The answer's status and headers, and its body as it comes."""

    def __init__(self, connection: _Connection, head: h11.Response) -> None:
        self.status = head.status_code
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers
        }
        self._connection = connection

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body; raises `ProviderUnreachable` and `ProviderMisbehaved`."""
        while True:
            match await self._connection.next_event():
                case h11.Data(data=data):
                    yield bytes(data)
                case h11.EndOfMessage():
                    return
                case _:
                    raise ProviderMisbehaved("The provider's answer goes on behind its end.")


@asynccontextmanager
async def post(
    url: str,
    headers: Sequence[tuple[str, str]],
    body: bytes,
    *,
    patience: HttpTimeouts,
    meter: Meter,
    tls: ssl.SSLContext | None,
) -> AsyncGenerator[HttpResponse]:
    """Send `body`, and have the answer; the connection is gone at the end of the context.

    Raises `ProviderUnreachable` and `ProviderMisbehaved`.
    """
    parts = urlsplit(url)
    assert parts.hostname is not None, "addresses are checked when they are read"
    secure = parts.scheme == "https"
    channel = await open_channel(
        parts.hostname,
        parts.port or (443 if secure else 80),
        tls if secure else None,
        meter,
        patience.connect,
    )
    connection = _Connection(channel, patience)
    try:
        target = parts.path or "/"
        yield await connection.ask(target, [("host", parts.netloc), *headers], body)
    finally:
        channel.close()


def trust(url: str, ca_file: str) -> ssl.SSLContext | None:
    """What certificates are checked against, always; None for `http://`. Reads files.

    Raises `ProviderUnreachable` for a file of certificates that cannot be read.
    """
    if not url.startswith("https:"):
        return None
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        # Some builds of Python know no certificates of the system.
        import certifi

        context.load_verify_locations(certifi.where())
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ProviderUnreachable(
                f"The certificates in {ca_file} cannot be read: {error.strerror or error}."
            ) from error
    return context


class _Connection:
    def __init__(self, channel: MeteredConnection, patience: HttpTimeouts) -> None:
        self._channel = channel
        self._patience = patience
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self._began = False

    async def ask(
        self, target: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> HttpResponse:
        request = h11.Request(
            method="POST",
            target=target,
            headers=[*headers, ("content-length", str(len(body))), ("connection", "close")],
        )
        data = b"".join(
            self._http.send(event) or b""
            for event in (request, h11.Data(data=body), h11.EndOfMessage())
        )
        try:
            # Broken: it may have answered before it closed, to refuse something too large.
            with suppress(ConnectionError):
                async with asyncio.timeout(self._patience.first_byte):
                    await self._channel.send(data)
        except TimeoutError:
            raise ProviderUnreachable("The provider stopped reading the request.") from None
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Response):
                return HttpResponse(self, event)
            if not isinstance(event, h11.InformationalResponse):
                raise ProviderMisbehaved("The provider's answer is not HTTP.")

    async def next_event(
        self,
    ) -> h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                what = str(error)[:_LONGEST_QUOTE]
                raise ProviderMisbehaved(f"The provider's answer is not HTTP: {what}.") from None
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._receive())
            elif isinstance(
                event, h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage
            ):
                return event
            else:
                raise ProviderUnreachable("The provider closed the connection without an answer.")

    async def _receive(self) -> bytes:
        seconds = self._patience.idle if self._began else self._patience.first_byte
        try:
            async with asyncio.timeout(seconds):
                data = await self._channel.receive()
        except TimeoutError:
            raise ProviderUnreachable(f"The provider was silent for {seconds:g} seconds.") from None
        except OSError as error:
            raise ProviderUnreachable(
                f"The connection to the provider broke: {error.strerror or error}."
            ) from error
        if not data and not self._began:
            raise ProviderUnreachable("The provider closed the connection without an answer.")
        self._began = True
        return data
