"""Serving other machines: required permission, API key and TLS, and its certificates."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
import trustme
import uvicorn
from starlette.types import Receive, Scope, Send

from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.access.auth import RequestGate
from ingle.daemon.access.exposure import Exposed, check_exposure
from ingle.daemon.http.http_protocol import GuardedProtocol
from ingle.daemon.http.route_spec import RouteIndex
from ingle.daemon.main import main
from ingle.daemon.server.daemon_server import Server
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.daemon.transport import peer, tls
from ingle.daemon.transport.sockets import SocketError, bind_exposed
from ingle.daemon.transport.tls import Certificate

Capture = pytest.CaptureFixture[str]
PLAIN = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@pytest.fixture
def config(ingle_home: Path) -> Config:
    paths = find_paths({"INGLE_HOME": str(ingle_home)})
    paths.make_private()
    return Config(paths=paths, host="0.0.0.0", port=0)


def make_key(config: Config, lifetime: float | None = None) -> str:
    return KeyStore(config.paths.keys).create(lifetime=lifetime)[1]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "fd00::5", "169.254.1.1"])
def test_exposure_requires_permission_key_and_tls(config: Config, host: str) -> None:
    config = replace(config, host=host)
    with pytest.raises(Exposed, match="explicit permission"):
        check_exposure(replace(config, tls_cert="/c", tls_key="/k"))
    config = replace(config, allow_lan=True)
    with pytest.raises(Exposed, match="there is none"):
        check_exposure(replace(config, tls_cert="/c", tls_key="/k"))
    make_key(config)
    with pytest.raises(Exposed, match="Without TLS"):
        check_exposure(config)
    with pytest.raises(Exposed, match="go together"):
        check_exposure(replace(config, tls_cert="/c"))
    check_exposure(replace(config, tls_cert="/c", tls_key="/k"))
    check_exposure(replace(config, allow_plain_lan=True))


def test_expired_key_does_not_allow_exposure(config: Config) -> None:
    store = KeyStore(config.paths.keys)
    make_key(config, lifetime=5)
    expires = str(store.list()[0].expires)
    store.path.write_text(store.path.read_text().replace(expires, "1"))
    with pytest.raises(Exposed, match="there is none"):
        check_exposure(replace(config, allow_lan=True, allow_plain_lan=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_loopback_has_no_requirements(config: Config, host: str) -> None:
    check_exposure(replace(config, host=host))
    check_exposure(replace(config, port=-1))  # no TCP at all


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host", "0.0.0.0"], "Other machines could reach 0.0.0.0"),
        (["--host", "::", "--allow-lan"], "Requests to :: need a key"),
        (["--host", "192.168.1.5", "--allow-plain-lan"], "Other machines could reach 192.168.1.5"),
    ],
)
def test_serve_reports_missing_requirements_and_exits_with_2(
    ingle_home: Path, capsys: Capture, arguments: list[str], sentence: str
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {sentence}")
    assert len(error.splitlines()) == 2
    assert not (ingle_home / "runtime/ingle.sock").exists()


@dataclass
class CertificateFiles:
    """A certificate for 127.0.0.1 on disk, and the authority that issued it."""

    authority: trustme.CA
    chain: Path
    key: Path

    def renew(self) -> trustme.LeafCert:
        """Write a new certificate issued by the same authority."""
        leaf = self.authority.issue_cert("127.0.0.1", "127.0.0.2")
        leaf.cert_chain_pems[0].write_to_path(self.chain)
        leaf.private_key_pem.write_to_path(self.key)
        self.key.chmod(0o600)
        return leaf

    def client(self) -> ssl.SSLContext:
        """An SSL context that trusts the authority."""
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=self.authority.cert_pem.bytes().decode())
        return context


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    created = CertificateFiles(trustme.CA(), tmp_path / "chain.pem", tmp_path / "key.pem")
    created.renew()
    return created


def test_world_readable_private_key_is_refused(files: CertificateFiles) -> None:
    files.key.chmod(0o644)
    with pytest.raises(SocketError, match="can read the private key"):
        Certificate(files.chain, files.key)


@pytest.mark.parametrize("broken", ["missing", "empty", "another's key", "a folder"])
def test_invalid_certificate_files_are_reported(files: CertificateFiles, broken: str) -> None:
    match broken:
        case "missing":
            files.chain.unlink()
        case "empty":
            files.chain.write_text("")
        case "another's key":
            chain = files.chain.read_bytes()
            files.renew()
            files.chain.write_bytes(chain)
        case _:
            files.chain.unlink()
            files.chain.mkdir()
    with pytest.raises(SocketError, match="cannot be"):
        Certificate(files.chain, files.key)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    start = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": start})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()[:2]})


@dataclass
class ExposedServer:
    """A server on all addresses; connections to 127.0.0.2 stand for those of other machines."""

    port: int
    server: Server
    key: str


@asynccontextmanager
async def serve_exposed(
    config: Config, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[ExposedServer]:
    """Serve on all addresses and treat connections to 127.0.0.2 as coming from another machine."""

    def is_loopback(address: tuple[str, int]) -> bool:
        return address[0] == "127.0.0.1"

    monkeypatch.setattr(tls, "is_loopback", is_loopback)
    key = make_key(config)
    gate = RequestGate(
        answer,
        routes=RouteIndex([]),
        config=replace(config, allowed_hosts=("127.0.0.2",)),
    )
    listener = bind_exposed("0.0.0.0", 0)
    server = Server(
        uvicorn.Config(
            gate, http=GuardedProtocol, ws="none", lifespan="off", log_config=None, access_log=False
        ),
        certificate=Certificate(files.chain, files.key),
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.listening.wait()
    try:
        yield ExposedServer(listener.getsockname()[1], server, key)
    finally:
        server.exit_requested.set()
        await serving
        listener.close()


async def test_loopback_is_plain_http_and_other_addresses_use_tls(
    config: Config, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serve_exposed(config, files, monkeypatch) as exposed,
        httpx.AsyncClient(verify=files.client()) as client,
    ):
        secured = await client.get(f"https://127.0.0.2:{exposed.port}/")
        assert (secured.status_code, secured.text) == (200, "ht")
        assert (await client.get(f"http://127.0.0.1:{exposed.port}/")).status_code == 200
        # Plain HTTP fails on the encrypted address, and TLS fails on the plain one.
        with pytest.raises(httpx.TransportError):
            await client.get(f"http://127.0.0.2:{exposed.port}/")
        with pytest.raises(httpx.TransportError):
            await client.get(f"https://127.0.0.1:{exposed.port}/")


@pytest.mark.slow
async def test_data_sent_with_the_tls_handshake_is_not_lost(
    config: Config, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_exposed(config, files, monkeypatch) as exposed:
        for _ in range(20):
            reader, writer = await asyncio.open_connection(
                "127.0.0.2", exposed.port, ssl=files.client(), server_hostname="127.0.0.2"
            )
            writer.write(PLAIN)
            async with asyncio.timeout(5):
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
async def test_tls_older_than_1_2_is_refused(
    config: Config, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch, newest: ssl.TLSVersion
) -> None:
    async with serve_exposed(config, files, monkeypatch) as exposed:
        context = files.client()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = newest
        async with httpx.AsyncClient(verify=context) as client:
            if newest is ssl.TLSVersion.TLSv1_2:
                assert (await client.get(f"https://127.0.0.2:{exposed.port}/")).status_code == 200
                return
            with pytest.raises(httpx.TransportError):
                await client.get(f"https://127.0.0.2:{exposed.port}/")


async def test_renewed_certificate_is_reloaded_and_invalid_one_ignored(
    config: Config, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serial() -> object:
        _, writer = await asyncio.open_connection(
            "127.0.0.2", exposed.port, ssl=files.client(), server_hostname="127.0.0.2"
        )
        writer.close()
        return writer.get_extra_info("peercert")["serialNumber"]

    async with serve_exposed(config, files, monkeypatch) as exposed:
        first = await serial()
        assert await serial() == first
        files.renew()
        second = await serial()
        assert second != first
        files.chain.write_text("nothing")
        assert await serial() == second
        files.chain.unlink()
        assert await serial() == second
        files.renew()
        assert await serial() not in (first, second)


async def test_stalled_handshakes_time_out_and_do_not_block_others(
    config: Config, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 0.3)
    async with serve_exposed(config, files, monkeypatch) as exposed:
        stalled = [await asyncio.open_connection("127.0.0.2", exposed.port) for _ in range(20)]
        async with httpx.AsyncClient(verify=files.client()) as client:
            assert (await client.get(f"https://127.0.0.2:{exposed.port}/")).status_code == 200
        async with asyncio.timeout(10):
            for reader, writer in stalled:
                assert await reader.read() == b""
                writer.close()


def other_address() -> str | None:
    """A non-loopback address of this machine, found without network traffic."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing, only selects a route
        except OSError:
            return None
        return str(probe.getsockname()[0])


async def test_connection_with_unknown_owner_requires_a_key(
    config: Config, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown_owner(client: object, server: object) -> None:
        """The owner of a connection from another machine is unknown."""

    monkeypatch.setattr(peer, "tcp_owner", unknown_owner)
    async with (
        serve_exposed(config, files, monkeypatch) as exposed,
        httpx.AsyncClient(verify=files.client()) as client,
    ):
        url = f"https://127.0.0.2:{exposed.port}/"
        assert (await client.get(url)).status_code == 401
        bearer = {"authorization": f"Bearer {exposed.key}"}
        assert (await client.get(url, headers=bearer)).status_code == 200
        for host in ("evil.example", "127.0.0.2.evil.example", "0.0.0.0"):
            refused = await client.get(url, headers={**bearer, "host": host})
            assert refused.status_code == 403


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net")
def test_peer_uid_is_found_on_non_loopback_addresses() -> None:
    address = other_address()
    if address is None:
        pytest.skip("this machine has no other address")
    from ingle.daemon.transport.peer import identify

    listener = bind_exposed("0.0.0.0", 0)
    listener.setblocking(True)
    with listener, socket.create_connection((address, listener.getsockname()[1])):
        served, _ = listener.accept()
        with served:
            assert identify(served, served.close).uid == os.geteuid()
