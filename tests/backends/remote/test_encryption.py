"""TLS to providers: certificates are always verified, and bytes are counted before encryption."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from msgspec import structs

from ingle.backends.base.requests import GenerateRequest
from ingle.backends.remote.errors import ProviderUnreachable

if TYPE_CHECKING:
    from .conftest import ProviderClient, Sink


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture(params=["localhost"])
async def secure_sink(
    sink: Sink, authority: trustme.CA, request: pytest.FixtureRequest
) -> AsyncGenerator[Sink]:
    """The sink behind TLS, with a certificate for one host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate: Any = authority.issue_cert(request.param)
    certificate.configure_cert(context)
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0, ssl=context)
    sink.port = server.sockets[0].getsockname()[1]
    sink.always(sink.hello)
    yield sink
    server.close()


async def send(
    provider_client: ProviderClient,
    chat_request: GenerateRequest,
    *,
    scheme: str = "https",
    **fields: Any,
) -> tuple[str, int]:
    exchange = provider_client.new_exchange()
    provider = structs.replace(
        provider_client.provider(**fields),
        base_url=f"{scheme}://localhost:{provider_client.sink.port}/v1",
    )
    await provider_client.backend(chat_request, exchange, provider).run(
        chat_request, exchange.events.extend
    )
    return exchange.text(), exchange.receipt.bytes_sent


async def test_custom_ca_file(
    provider_client: ProviderClient, secure_sink: Sink, chat_request: GenerateRequest, ca_file: str
) -> None:
    assert await send(provider_client, chat_request, ca_file=ca_file) == (
        "Hello",
        secure_sink.received,
    )


async def test_url_scheme_is_case_insensitive(
    provider_client: ProviderClient, secure_sink: Sink, chat_request: GenerateRequest, ca_file: str
) -> None:
    answer = await send(provider_client, chat_request, scheme="HTTPS", ca_file=ca_file)
    assert answer == ("Hello", secure_sink.received)


async def test_bytes_of_a_long_request_are_counted(
    provider_client: ProviderClient, secure_sink: Sink, chat_request: GenerateRequest, ca_file: str
) -> None:
    long = structs.replace(chat_request, stop=["x" * 3_000_000])
    assert await send(provider_client, long, ca_file=ca_file) == ("Hello", secure_sink.received)
    assert secure_sink.received > 3_000_000


async def test_untrusted_certificate_is_refused(
    provider_client: ProviderClient, secure_sink: Sink, chat_request: GenerateRequest
) -> None:
    with pytest.raises(ProviderUnreachable, match="cannot be trusted"):
        await send(provider_client, chat_request)
    assert secure_sink.received == 0


@pytest.mark.parametrize("secure_sink", ["other.example"], indirect=True)
async def test_certificate_for_another_host_is_refused(
    provider_client: ProviderClient, secure_sink: Sink, chat_request: GenerateRequest, ca_file: str
) -> None:
    with pytest.raises(ProviderUnreachable, match="cannot be trusted"):
        await send(provider_client, chat_request, ca_file=ca_file)
    assert secure_sink.received == 0


async def test_invalid_ca_file_is_reported(
    provider_client: ProviderClient,
    secure_sink: Sink,
    chat_request: GenerateRequest,
    tmp_path: Path,
) -> None:
    (tmp_path / "x").write_text("x")
    for path in (tmp_path / "x", tmp_path / "nothing"):
        with pytest.raises(ProviderUnreachable, match="certificates"):
            await send(provider_client, chat_request, ca_file=str(path))
