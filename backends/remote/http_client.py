"""HTTP/1.1 client for one request per connection, with every byte counted.

No pool, redirects, cookies or settings from the environment: only what is built here is sent.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import h11

from .errors import ProviderMisbehaved, ProviderUnreachable
from .metered_connection import Meter, MeteredConnection, open_connection
from .providers import Provider

LARGEST_HEAD = 64 * 2**10
"""Bytes of a response's status line and headers."""

_LONGEST_QUOTE = 200
_HttpEvent = h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage


class HttpResponse:
    """The status and headers of a response, and its body as it arrives.

    `headers` has the last value of each name, `header_list` all in their order.
    """

    def __init__(self, connection: _Connection, head: h11.Response) -> None:
        self.status = head.status_code
        self.header_list = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in head.headers
        ]
        self.headers = dict(self.header_list)
        self._connection = connection

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body; raises `ProviderUnreachable` and `ProviderMisbehaved`."""
        while True:
            match await self._connection.next_event():
                case h11.Data(data=data):
                    yield bytes(data)
                case h11.EndOfMessage():
                    return
                case _:
                    raise ProviderMisbehaved("The provider sent data after the end of its answer.")


@asynccontextmanager
async def exchange(
    provider: Provider,
    path: str,
    headers: Sequence[tuple[str, str]],
    body: bytes,
    meter: Meter,
    *,
    method: str = "POST",
) -> AsyncGenerator[HttpResponse]:
    """Send `body` to a path and query below the provider's address, and yield the response.

    The connection closes at the end of the context. Raises `ProviderUnreachable` and
    `ProviderMisbehaved`.
    """
    parts = urlsplit(provider.base_url.rstrip("/") + path)
    assert parts.hostname is not None, "addresses are checked when they are read"
    secure = parts.scheme == "https"
    tls = await asyncio.to_thread(_tls_context, provider.ca_file) if secure else None
    port = parts.port or (443 if secure else 80)
    transport = await open_connection(parts.hostname, port, tls, meter, provider.connect_timeout)
    connection = _Connection(transport, provider)
    try:
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        yield await connection.ask(method, target, [("host", parts.netloc), *headers], body)
    finally:
        transport.close()


def _tls_context(ca_file: str) -> ssl.SSLContext:
    """Return the TLS context that verifies certificates. Reads files.

    Raises `ProviderUnreachable` if the certificate file cannot be read.
    """
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        # Some builds of Python find no system certificates.
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
    def __init__(self, transport: MeteredConnection, provider: Provider) -> None:
        self._transport = transport
        self._provider = provider
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self._began = False

    async def ask(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> HttpResponse:
        length = [("content-length", str(len(body)))] if body or method == "POST" else []
        request = h11.Request(
            method=method, target=target, headers=[*headers, *length, ("connection", "close")]
        )
        data = b"".join(
            self._http.send(event) or b""
            for event in (request, h11.Data(data=body), h11.EndOfMessage())
        )
        try:
            # The server may have answered before it closed, to refuse a large request.
            with suppress(ConnectionError):
                async with asyncio.timeout(self._provider.first_byte_timeout):
                    await self._transport.send(data)
        except TimeoutError:
            raise ProviderUnreachable("The provider stopped reading the request.") from None
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Response):
                return HttpResponse(self, event)
            if not isinstance(event, h11.InformationalResponse):
                raise ProviderMisbehaved("The provider's answer is not HTTP.")

    async def next_event(self) -> _HttpEvent:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                what = str(error)[:_LONGEST_QUOTE]
                raise ProviderMisbehaved(f"The provider's answer is not HTTP: {what}.") from None
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._receive())
            elif isinstance(event, _HttpEvent):
                return event
            else:
                raise ProviderUnreachable("The provider closed the connection without an answer.")

    async def _receive(self) -> bytes:
        provider = self._provider
        seconds = provider.idle_timeout if self._began else provider.first_byte_timeout
        try:
            async with asyncio.timeout(seconds):
                data = await self._transport.receive()
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
