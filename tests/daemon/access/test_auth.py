"""Request gate: refused requests never reach the application, and their bodies are not read."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from ingle.daemon.access.auth import RequestGate
from ingle.daemon.http.bodies import NATIVE
from ingle.daemon.http.http_protocol import GuardedProtocol
from ingle.daemon.http.route_access import FILES
from ingle.daemon.http.route_spec import RouteIndex, RouteSpec
from ingle.daemon.server.daemon_server import Server
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths
from ingle.daemon.transport.sockets import bind_tcp, bind_unix

pytestmark = pytest.mark.quick

RawRequest = Callable[[int | Path, bytes], Awaitable[bytes]]

LISTED = "https://chat.example"


@dataclass
class GatedServer:
    """The gate in front of an application that counts admitted requests."""

    port: int
    socket: Path
    app: Recorder
    owner: list[int]


class Recorder:
    """Counts requests and body bytes, and answers 200."""

    def __init__(self) -> None:
        self.requests = 0
        self.read = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += 1
        more = True
        while more:
            message = await receive()
            self.read += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        )
        await send({"type": "http.response.body", "body": b"ok"})


def upload_route(path: str) -> RouteSpec:
    """A route with a body limit of `max_upload_bytes`."""
    return RouteSpec("POST", path, access=FILES, error_format=NATIVE, upload=True)


@pytest.fixture
async def server(ingle_home: Path) -> AsyncGenerator[GatedServer]:
    paths = find_paths({"INGLE_HOME": str(ingle_home)})
    paths.make_private()
    tcp, unix = bind_tcp("127.0.0.1", 0), bind_unix(paths.socket, paths)
    recorder, owner = Recorder(), [os.geteuid()]
    gate = RequestGate(
        recorder,
        routes=RouteIndex([upload_route("/v1/files"), upload_route("/api/blobs/{digest}")]),
        config=Config(
            paths=paths,
            allowed_origins=(LISTED, "null", "*", "https://*", "vscode-webview://*"),
            max_body_bytes=1000,
            max_upload_bytes=5000,
        ),
        uid=lambda: owner[0],
    )
    server = Server(
        uvicorn.Config(
            gate,
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            log_config=None,
            access_log=False,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[tcp, unix.socket]))
    await server.listening.wait()
    yield GatedServer(tcp.getsockname()[1], paths.socket, recorder, owner)
    server.exit_requested.set()
    await serving
    unix.close()


def post(*headers: str, path: str = "/v1/chat/completions", body: str = "") -> bytes:
    """A POST that announces a body of ten bytes and sends the given one."""
    lines = [f"POST {path} HTTP/1.1", *headers, "Content-Length: 10", "", body]
    return "\r\n".join(lines).encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


GOOD_HOSTS = ["127.0.0.1", "127.0.0.1:{port}", "localhost", "LOCALHOST:{port}", "[::1]:{port}"]
BAD_HOSTS = [
    "evil.com",
    "evil.com:{port}",
    "127.0.0.1.evil.com",
    "evil.com#127.0.0.1",
    "127.0.0.1@evil.com",
    "localhost.",
    "localhost.evil.com",
    "localhost.localdomain",
    "xlocalhost",
    "0.0.0.0",
    "0.0.0.0:{port}",
    "127.0.0.2",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "::1",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]:{port}",
    "[::1",
    "127.0.0.1:1",
    "127.0.0.1:",
    "127.0.0.1:{port}0",
    "127.0.0.1:{port}:{port}",
    "127.0.0.1, evil.com",
    "127.0.0.1 evil.com",
    "http://127.0.0.1",
    "ingle",
    "",
]


async def test_local_hosts_are_accepted(server: GatedServer, raw: RawRequest) -> None:
    for host in GOOD_HOSTS:
        header = f"Host: {host.format(port=server.port)}"
        assert status(await raw(server.port, post(header, body="0123456789"))) == 200, host
    assert server.app.read == 10 * len(GOOD_HOSTS)


async def test_other_hosts_are_refused(server: GatedServer, raw: RawRequest) -> None:
    for host in BAD_HOSTS:
        answer = await raw(server.port, post(f"Host: {host.format(port=server.port)}"))
        assert status(answer) == 403, host
        assert b"host_not_allowed" in answer
        assert b"connection: close" in answer.lower()
    assert (server.app.requests, server.app.read) == (0, 0)


@pytest.mark.parametrize("headers", [(), ("Host: 127.0.0.1", "Host: 127.0.0.1")])
async def test_missing_or_duplicate_host_is_refused(
    server: GatedServer, raw: RawRequest, headers: tuple[str, ...]
) -> None:
    assert status(await raw(server.port, post(*headers))) == 403
    assert status(await raw(server.socket, post(*headers))) == 403
    assert server.app.requests == 0


async def test_absolute_request_target_is_refused(server: GatedServer, raw: RawRequest) -> None:
    answer = await raw(server.port, post("Host: 127.0.0.1", path="http://evil.com/v1/models"))
    assert status(answer) == 400
    assert server.app.requests == 0


async def test_unix_socket_accepts_placeholder_host_names(
    server: GatedServer, raw: RawRequest
) -> None:
    for host in ("localhost", "ingle", "127.0.0.1:99", "ingle:80"):
        assert status(await raw(server.socket, post(f"Host: {host}", body="0123456789"))) == 200


async def test_unix_socket_refuses_foreign_names(server: GatedServer, raw: RawRequest) -> None:
    assert status(await raw(server.socket, post("Host: evil.com"))) == 403
    assert server.app.requests == 0


BROWSERS = [
    ("Origin: https://evil.com",),
    ("Origin: null",),
    ("Origin: *",),
    ("Origin: file://",),
    ("Origin: http://localhost.evil.com",),
    ("Origin: http://127.0.0.1:4645",),
    (f"Origin: {LISTED}.evil.com",),
    (f"Origin: {LISTED}:8443",),
    (f"Origin: {LISTED}/",),
    ("Origin: http://chat.example",),
    ("Origin: HTTPS://CHAT.EXAMPLE",),
    ("Origin: ",),
    (f"Origin: {LISTED}", "Origin: https://evil.com"),
    ("Referer: https://evil.com/page",),
    (f"Referer: {LISTED}/page",),
    ("Sec-Fetch-Site: cross-site",),
    ("Sec-Fetch-Site: same-origin",),
    ("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"),
    ("Sec-Fetch-Dest: image",),
    ("Sec-Fetch-User: ?1",),
]


@pytest.mark.parametrize("over", ["tcp", "unix"])
async def test_unlisted_origins_are_refused(
    server: GatedServer, raw: RawRequest, over: str
) -> None:
    where = server.port if over == "tcp" else server.socket
    kinds = ("text/plain", "application/json", "application/x-www-form-urlencoded")
    for signs in BROWSERS:
        lines = ["OPTIONS / HTTP/1.1", "Host: localhost", *signs]
        lines += ["Access-Control-Request-Method: POST", "", ""]
        requests = [post("Host: localhost", f"Content-Type: {kind}", *signs) for kind in kinds]
        for request in (*requests, "\r\n".join(lines).encode()):
            answer = await raw(where, request)
            assert status(answer) == 403, signs
            assert b"origin_not_allowed" in answer
            assert b"access-control" not in answer.lower()
    assert (server.app.requests, server.app.read) == (0, 0)


async def test_get_with_a_foreign_referer_is_refused(server: GatedServer, raw: RawRequest) -> None:
    get = b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\nReferer: https://evil.com/\r\n\r\n"
    assert status(await raw(server.port, get)) == 403
    assert server.app.requests == 0


async def test_listed_origin_may_send_json_only(server: GatedServer, raw: RawRequest) -> None:
    signs = ("Host: 127.0.0.1", f"Origin: {LISTED}", "Sec-Fetch-Site: cross-site")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; x=y"):
        answer = await raw(server.port, post(*signs, f"Content-Type: {kind}"))
        assert status(answer) == 415
    assert status(await raw(server.port, post(*signs))) == 415
    assert (server.app.requests, server.app.read) == (0, 0)
    answer = await raw(
        server.port,
        post(*signs, "Content-Type: application/json; charset=utf-8", body="0123456789"),
    )
    assert status(answer) == 200
    assert f"access-control-allow-origin: {LISTED}".encode() in answer.lower()
    assert b"access-control-allow-credentials" not in answer.lower()


async def test_any_host_of_a_listed_scheme_may_send(server: GatedServer, raw: RawRequest) -> None:
    for origin, expected in (
        ("vscode-webview://0a1b2c", 200),
        ("vscode-webview-2://0a1b2c", 403),
        ("https://evil.com", 403),
    ):
        signs = ("Host: 127.0.0.1", f"Origin: {origin}", "Content-Type: application/json")
        answer = await raw(server.port, post(*signs, body="0123456789"))
        assert status(answer) == expected, origin


async def test_listed_origin_gets_a_preflight_response(
    server: GatedServer, raw: RawRequest
) -> None:
    preflight = "\r\n".join(
        [
            "OPTIONS /v1/chat/completions HTTP/1.1",
            "Host: 127.0.0.1",
            f"Origin: {LISTED}",
            "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: content-type, x-stainless-os",
            "Access-Control-Request-Private-Network: true",
            "",
            "",
        ]
    )
    answer = (await raw(server.port, preflight.encode())).lower()
    assert status(answer) == 204
    assert f"access-control-allow-origin: {LISTED}".encode() in answer
    assert b"access-control-allow-headers: content-type, x-stainless-os" in answer
    assert b"private-network" not in answer
    assert server.app.requests == 0


async def test_sec_fetch_mode_of_node_is_not_treated_as_a_browser(
    server: GatedServer, raw: RawRequest
) -> None:
    answer = await raw(
        server.port,
        post("Host: 127.0.0.1", "Sec-Fetch-Mode: cors", "User-Agent: node", body="0123456789"),
    )
    assert status(answer) == 200


async def test_oversized_content_length_is_refused_without_reading(
    server: GatedServer, raw: RawRequest
) -> None:
    head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
    answer = await raw(server.port, head + b"Content-Length: 1001\r\n\r\n")
    assert status(answer) == 413
    assert (server.app.requests, server.app.read) == (0, 0)


async def test_uploads_have_a_larger_body_limit(server: GatedServer, raw: RawRequest) -> None:
    for path in ("/v1/files", "/api/blobs/sha256:0"):
        head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n" % path.encode()
        assert status(await raw(server.port, head + b"Content-Length: 1001\r\n\r\n")) != 413
        answer = await raw(server.port, head + b"Content-Length: 5001\r\n\r\n")
        assert status(answer) == 413
        assert b"max_upload_bytes" in answer


async def test_another_user_is_refused(server: GatedServer, raw: RawRequest) -> None:
    server.owner[0] = os.geteuid() + 1
    for where in (server.port, server.socket):
        answer = await raw(where, post("Host: localhost"))
        assert status(answer) == 403
        assert b"belongs to another user" in answer
    assert (server.app.requests, server.app.read) == (0, 0)


needs_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can switch users"
)


def send_as(uid: int, where: int | Path, content: bytes) -> bytes:
    """Send a request as another user; returns the response or the name of the error; blocks."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The child touches nothing that another thread could hold, and exits without cleanup.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            kind = socket.AF_INET if isinstance(where, int) else socket.AF_UNIX
            with socket.socket(kind) as client:
                client.connect(("127.0.0.1", where) if isinstance(where, int) else str(where))
                client.sendall(content)
                while part := client.recv(4096):
                    os.write(writing, part)
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@needs_root
async def test_real_other_user_is_refused_over_tcp(server: GatedServer) -> None:
    answer = await asyncio.to_thread(send_as, 65534, server.port, post("Host: localhost"))
    assert status(answer) == 403
    assert b"wrong_user" in answer
    assert (server.app.requests, server.app.read) == (0, 0)


@needs_root
async def test_real_other_user_cannot_open_the_unix_socket(server: GatedServer) -> None:
    answer = await asyncio.to_thread(send_as, 65534, server.socket, post("Host: localhost"))
    assert answer == b"PermissionError"
    assert server.app.requests == 0


@needs_root
async def test_real_other_user_is_refused_despite_loosened_modes(server: GatedServer) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        # The parent folders of the fixture are private, so the socket gets a hard link elsewhere.
        link = os.path.join(folder, "link.sock")  # noqa: PTH118
        os.link(server.socket, link)
        os.chmod(folder, 0o755)  # noqa: PTH101
        os.chmod(link, 0o666)  # noqa: PTH101
        answer = await asyncio.to_thread(send_as, 65534, Path(link), post("Host: localhost"))
    assert status(answer) == 403
    assert (server.app.requests, server.app.read) == (0, 0)
