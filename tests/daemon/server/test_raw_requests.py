"""Malformed and hostile HTTP requests are refused before they reach a model or a file."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.daemon.server.route_table import route_table

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

RawRequest = Callable[[int | Path, bytes], Awaitable[bytes]]

HOSTS = [
    b"evil.com",
    b"evil.com:%d",
    b"127.0.0.1.evil.com",
    b"127.0.0.1.evil.com:%d",
    b"localhost.evil.com:%d",
    b"evil.com:%d@127.0.0.1",
    b"127.0.0.1:%d@evil.com",
    b"user:secret@127.0.0.1:%d",
    b"@127.0.0.1:%d",
    b"evil.com#127.0.0.1",
    b"127.0.0.1#evil.com",
    b"127.0.0.1/evil.com",
    b"127.0.0.1?evil.com",
    b"127.0.0.1\\evil.com",
    b"localhost.",
    b"localhost.:%d",
    b"127.0.0.1.",
    b"127.0.0.1.:%d",
    b"LOCALHOST.LOCALDOMAIN",
    b"xlocalhost",
    b"localhostx:%d",
    b"0.0.0.0",
    b"0.0.0.0:%d",
    b"0:%d",
    b"127.0.0.2:%d",
    b"127.1:%d",
    b"127.000.000.001:%d",
    b"2130706433:%d",
    b"0x7f.0.0.1:%d",
    b"0177.0.0.1:%d",
    b"::1",
    b"::1:%d",
    b"[::]:%d",
    b"[::1",
    b"::1]:%d",
    b"[0:0:0:0:0:0:0:1]:%d",
    b"[::ffff:127.0.0.1]:%d",
    b"[::ffff:7f00:1]:%d",
    b"[::1%%25lo]:%d",
    b"127.0.0.1:80",
    b"127.0.0.1:",
    b"127.0.0.1:%d0",
    b"127.0.0.1:0%d",
    b"127.0.0.1:+%d",
    b"127.0.0.1:%d:%d",
    b"127.0.0.1:%d, evil.com",
    b"127.0.0.1 evil.com",
    b"http://127.0.0.1:%d",
    b"ingle",
    b"*",
    b"",
    b"\xe2\x93\x9bocalhost",
    b"127\xe3\x80\x820\xe3\x80\x820\xe3\x80\x821",
    b"\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1:%d",
    b"lo\xc5\xbfalhost:%d",
    b"xn--localhost:%d",
    b"%%6cocalhost:%d",
]

ORIGINS = [
    "null",
    "*",
    "",
    "file://",
    "https://evil.com",
    "http://evil.com:{port}",
    "http://localhost",
    "http://localhost:{port}",
    "http://127.0.0.1:{port}",
    "http://[::1]:{port}",
    "http://localhost.evil.com",
    "http://127.0.0.1.evil.com:{port}",
    "https://chat.example.evil.com",
    "https://evilchat.example",
    "https://chat.example:8443",
    "https://chat.example/",
    "http://chat.example",
    "HTTPS://CHAT.EXAMPLE",
    "https://chat.example https://evil.com",
    "https://chat.example, https://evil.com",
    "chrome-extension://abcdefgh",
    "vscode-webview://abc",
    "capacitor://localhost",
    "moz-extension://1234",
]


def assert_idle(daemon: RunningDaemon) -> None:
    """Assert that no model was loaded, no pull started and no shutdown requested."""
    assert daemon.services.manager.loaded() == []
    assert daemon.services.manager.requests() == {}
    assert daemon.services.pulls.progress() == []
    assert daemon.shutdowns == []


async def test_foreign_host_headers_are_refused(daemon: RunningDaemon, raw: RawRequest) -> None:
    assert len(HOSTS) >= 40
    for pattern in HOSTS:
        host = pattern.replace(b"%d", b"%d" % daemon.port).replace(b"%%", b"%")
        for head in (b"GET /health/ready", b"POST /v1/chat/completions"):
            # The body is never sent; a response shows that the server did not wait for it.
            request = head + b" HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 99\r\n\r\n"
            answer = await raw(daemon.port, request)
            assert re.match(rb"HTTP/1.1 (403|400) ", answer), (host, answer)
    assert_idle(daemon)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health/ready HTTP/1.0\r\n",
        b"GET /health/ready HTTP/1.1\r\n",
        b"GET /health/ready HTTP/1.0\r\nHost: evil.com\r\n",
        b"GET http://127.0.0.1/health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET http://evil.com/health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET http://127.0.0.1/health/ready HTTP/1.1\r\nHost: evil.com\r\n",
        b"GET //evil.com/health/ready HTTP/1.1\r\nHost: evil.com\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.com\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: evil.com\r\nHost: 127.0.0.1\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: evil.com\r\nX-Forwarded-Host: 127.0.0.1\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: evil.com\r\nForwarded: host=127.0.0.1\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost : 127.0.0.1\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n evil.com\r\n",
        b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\x00\r\n",
    ],
)
async def test_ambiguous_host_is_refused(
    daemon: RunningDaemon, raw: RawRequest, head: bytes
) -> None:
    answer = await raw(daemon.port, head + b"\r\n")
    assert re.match(rb"HTTP/1.1 (403|400) ", answer), answer
    assert_idle(daemon)


async def test_unlisted_origins_are_refused_without_cors_headers(
    run_daemon: DaemonFactory, raw: RawRequest
) -> None:
    assert len(ORIGINS) >= 20
    async with run_daemon(allowed_origins=("https://chat.example",)) as daemon:
        for pattern in ORIGINS:
            origin = pattern.format(port=daemon.port)
            head = f"HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n"
            preflight = (
                "Access-Control-Request-Method: POST\r\n"
                "Access-Control-Request-Private-Network: true"
            )
            for request in (
                f"OPTIONS /v1/chat/completions {head}{preflight}\r\n\r\n",
                f"GET /v1/models {head}\r\n",
                f"GET /health/ready {head}\r\n",
                f"POST /v1/chat/completions {head}Content-Length: 99\r\n\r\n",
                f"GET /v1/responses {head}Connection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            ):
                answer = (await raw(daemon.port, request.encode())).lower()
                assert answer.startswith(b"http/1.1 403 "), (origin, request, answer)
                assert b"access-control-" not in answer
        assert_idle(daemon)


def home_digests(daemon: RunningDaemon) -> dict[str, str]:
    """The digest of every file in the home, except the cached facts about the machine."""
    paths = daemon.services.config.paths
    files = (path for path in paths.models.parent.rglob("*") if path.is_file())
    files = (path for path in files if path != paths.machine_facts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
async def test_get_requests_do_not_change_state(daemon: RunningDaemon, raw: RawRequest) -> None:
    """All GET endpoints; only `/health/ready` may load a model, as documented, and not for a web
    page."""
    before = home_digests(daemon)
    sent = 0
    for spec in route_table(daemon.services):
        if spec.method not in ("GET", "HEAD") or spec.path == "/health/ready":
            continue
        path = re.sub(r"\{[^}]*\}", "echo:1", spec.path)
        for query in ("", "?model=echo:1&dry_run=false&compare=true"):
            request = f"{spec.method} {path}{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
                writer.write(request.encode())
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 ")
                writer.close()
            sent += 1
    assert sent > 60
    await daemon.until(lambda: not daemon.server.server_state.tasks)
    assert_idle(daemon)
    assert home_digests(daemon) == before


HOSTILE_VALUES = [
    b"",
    b"\x00",
    b"\r",
    b"\n",
    b"\x7f",
    b"\xff\xfe",
    b"\t",
    b" ",
    b"a" * 5000,
    b"chunked",
    b"chunked, identity",
    b"-1",
    b"99999999999999999999",
    b"0x10",
    b"1e3",
    b"100-continue",
    b"Upgrade, h2c",
    b"close, close",
    b"bytes=0-",
    b"gzip",
    b"\xc0\xaf",
    b"../../etc/passwd",
    b"${jndi:x}",
    b"() { :; };",
]
HEADERS = [
    b"Host",
    b"Content-Length",
    b"Transfer-Encoding",
    b"Connection",
    b"Expect",
    b"Upgrade",
    b"Authorization",
    b"X-Api-Key",
    b"Content-Type",
    b"Content-Encoding",
    b"Range",
    b"TE",
    b"Trailer",
    b"Origin",
    b"Cookie",
    b"Last-Event-ID",
    b"X-Forwarded-For",
    b":authority",
    b"",
    b"\xff",
    b"A B",
]


async def test_random_headers_do_not_break_the_daemon(
    daemon: RunningDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(9)
    before = home_digests(daemon)
    for _ in range(200):
        method = rng.choice([b"GET", b"POST", b"PUT", b"M-SEARCH", b"", b"get", b"\x00"])
        target = rng.choice(
            [b"/health", b"/v1/models", b"*", b"", b"/\x00", b"/%00", b"/%ff", b"/" * 900]
        )
        version = rng.choice([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"", b"ICY"])
        lines = [method + b" " + target + b" " + version, b"Host: 127.0.0.1"]
        for _ in range(rng.randrange(8)):
            lines.append(
                rng.choice(HEADERS) + rng.choice([b": ", b":", b" : "]) + rng.choice(HOSTILE_VALUES)
            )
        request = rng.choice([b"\r\n", b"\n"]).join([*lines, b"", rng.choice(HOSTILE_VALUES)])
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        with contextlib.suppress(ConnectionError):
            writer.write(request)
            writer.write_eof()
            async with asyncio.timeout(5):
                answer = await reader.read()
            assert not answer or re.match(rb"HTTP/1.1 [1-4]\d\d ", answer), (request, answer)
        writer.close()
    assert (await daemon.tcp.get("/health")).status_code == 200
    assert home_digests(daemon) == before
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


CHUNKED = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + b"\x00" * 150,
        b"\x16\x03\x03\x00\x04\x0e\x00\x00\x00",
        b"\x00" * 4096,
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"-5\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"ffffffffffffffffff\r\n{}",
        CHUNKED + b"2\r\n{}XX0\r\n\r\n",
        CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n",
        CHUNKED.replace(b"chunked", b"xchunked") + b"2\r\n{}\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 10**6 + b"\r\n\r\n",
        b"GET /" + b"a" * 10**6 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 10**6,
        b"GET /" + b"a" * 10**6,
        b"a" * 10**6,
    ],
    ids=lambda content: repr(content[-20:]),
)  # fmt: skip
async def test_other_protocols_and_broken_framing_close_the_connection(
    daemon: RunningDaemon, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    answer = b""
    with contextlib.suppress(ConnectionError):
        writer.write(content)
        async with asyncio.timeout(8):
            answer = await reader.read()  # the server closes the connection first
    writer.close()
    assert not answer or re.match(rb"HTTP/1.1 4\d\d ", answer), answer
    assert answer.count(b"HTTP/1.1 4") <= 1
    assert (await daemon.tcp.get("/health")).status_code == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert_idle(daemon)


async def test_body_of_a_refused_request_is_not_parsed_as_a_request(
    daemon: RunningDaemon,
) -> None:
    """A request smuggled in the body of a refused request is not processed."""
    inner = b"POST /ingle/v1/shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    for framing in (b"Content-Length: %d" % len(inner), b"Content-Length: 0", b"X: y"):
        head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.com\r\n" + framing
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        writer.write(head + b"\r\n\r\n" + inner)
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 403")
        assert answer.count(b"HTTP/1.1") == 1
    assert_idle(daemon)


async def test_too_long_pipeline_is_closed(daemon: RunningDaemon) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(5):
            await reader.read()
    writer.close()
    assert (await daemon.tcp.get("/health")).status_code == 200
