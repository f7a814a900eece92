"""Certificates are always checked, and bytes are counted before encryption."""

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
    from .conftest import Asker, Sink


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
    """The sink behind TLS, with a certificate for one name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate: Any = authority.issue_cert(request.param)
    certificate.configure_cert(context)
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0, ssl=context)
    sink.port = server.sockets[0].getsockname()[1]
    sink.always(sink.hello)
    yield sink
    server.close()


async def ask(
    asker: Asker, question: GenerateRequest, *, scheme: str = "https", **fields: Any
) -> tuple[str, int]:
    asked = asker.nothing_yet()
    provider = structs.replace(
        asker.provider(**fields), base_url=f"{scheme}://localhost:{asker.sink.port}/v1"
    )
    await asker.backend(question, asked, provider).run(question, asked.events.extend)
    return asked.text(), asked.receipt.bytes_sent


async def test_a_certificate_of_ones_own(
    asker: Asker, secure_sink: Sink, question: GenerateRequest, ca_file: str
) -> None:
    assert await ask(asker, question, ca_file=ca_file) == ("Hello", secure_sink.received)


async def test_the_scheme_may_be_in_capitals(
    asker: Asker, secure_sink: Sink, question: GenerateRequest, ca_file: str
) -> None:
    answer = await ask(asker, question, scheme="HTTPS", ca_file=ca_file)
    assert answer == ("Hello", secure_sink.received)


async def test_a_long_request_is_counted_as_well(
    asker: Asker, secure_sink: Sink, question: GenerateRequest, ca_file: str
) -> None:
    long = structs.replace(question, stop=["x" * 3_000_000])
    assert await ask(asker, long, ca_file=ca_file) == ("Hello", secure_sink.received)
    assert secure_sink.received > 3_000_000


async def test_nobody_vouches(asker: Asker, secure_sink: Sink, question: GenerateRequest) -> None:
    with pytest.raises(ProviderUnreachable, match="cannot be trusted"):
        await ask(asker, question)
    assert secure_sink.received == 0


@pytest.mark.parametrize("secure_sink", ["other.example"], indirect=True)
async def test_a_certificate_for_another_name(
    asker: Asker, secure_sink: Sink, question: GenerateRequest, ca_file: str
) -> None:
    with pytest.raises(ProviderUnreachable, match="cannot be trusted"):
        await ask(asker, question, ca_file=ca_file)
    assert secure_sink.received == 0


async def test_a_file_that_is_no_certificate(
    asker: Asker, secure_sink: Sink, question: GenerateRequest, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("x")
    for path in (tmp_path / "x", tmp_path / "nothing"):
        with pytest.raises(ProviderUnreachable, match="certificates"):
            await ask(asker, question, ca_file=str(path))
