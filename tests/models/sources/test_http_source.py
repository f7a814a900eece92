from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from ingle.models.errors import PullCancelled, SourceUnavailable
from ingle.models.sources.download_source import RemoteFile, Transfer
from ingle.models.sources.http_source import HTTPSource
from ingle.models.sources.partial_file import PartialFile

if TYPE_CHECKING:
    from ..conftest import FileServer

CONTENT = bytes(range(256)) * 4096  # 1 MiB
KNOWN = RemoteFile("f.bin", len(CONTENT), "0" * 64)
UNKNOWN = RemoteFile("f.bin")


@pytest.fixture
def partial_path(tmp_path: Path) -> Path:
    return tmp_path / "f.bin.partial"


def fetch(
    url: str,
    path: Path,
    file: RemoteFile = UNKNOWN,
    *,
    headers: dict[str, str] | None = None,
    refusals: dict[int, tuple[str, str]] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    transport: httpx.BaseTransport | None = None,
) -> list[tuple[int, int | None]]:
    reports: list[tuple[int, int | None]] = []
    source = HTTPSource(
        url, headers=headers, refusals=refusals or {}, retry_delay=0.01, transport=transport
    )
    with PartialFile(path) as partial:
        source.fetch(
            Transfer(file, partial, lambda done, total: reports.append((done, total)), cancelled)
        )
    return reports


def test_whole_file(server: FileServer, partial_path: Path) -> None:
    reports = fetch(server.serve("/f", CONTENT), partial_path)
    assert partial_path.read_bytes() == CONTENT
    assert reports[0] == (0, len(CONTENT))
    assert reports[-1] == (len(CONTENT), len(CONTENT))
    assert server.log[0].headers["accept-encoding"] == "identity"


def test_interrupted_connection_is_resumed(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, cuts=[300_000, 200_000])
    fetch(url, partial_path)
    assert partial_path.read_bytes() == CONTENT
    assert [request.range for request in server.log] == [None, "bytes=300000-", "bytes=500000-"]
    assert server.log[1].headers["if-range"] == '"v1"'


def test_later_attempt_resumes(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, cuts=[400_000, 0, 0, 0, 0, 0])
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        fetch(url, partial_path)
    assert partial_path.stat().st_size == 400_000
    server.serve("/f", CONTENT)
    server.log.clear()
    fetch(url, partial_path)
    assert partial_path.read_bytes() == CONTENT
    assert [request.range for request in server.log] == ["bytes=400000-"]


def test_changed_file_is_downloaded_from_the_start(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, cuts=[400_000, 0, 0, 0, 0, 0])
    with pytest.raises(SourceUnavailable):
        fetch(url, partial_path)
    other = CONTENT[::-1]
    server.serve("/f", other, etag='"v2"')
    fetch(url, partial_path)
    assert partial_path.read_bytes() == other


def test_resuming_without_etag_requires_a_digest(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, etag=None)
    for file, requested in ((UNKNOWN, None), (KNOWN, "bytes=1000-")):
        partial_path.write_bytes(CONTENT[:1000])
        server.log.clear()
        fetch(url, partial_path, file)
        assert partial_path.read_bytes() == CONTENT
        assert [request.range for request in server.log] == [requested]


def test_server_without_range_support(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, cuts=[300_000], ignores_range=True)
    fetch(url, partial_path)
    assert partial_path.read_bytes() == CONTENT
    assert len(server.log) == 2


def test_retries_are_bounded(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, cuts=[1000] * 50, ignores_range=True)
    with pytest.raises(SourceUnavailable):
        fetch(url, partial_path)
    assert len(server.log) < 10


def test_too_long_partial_file_starts_over(server: FileServer, partial_path: Path) -> None:
    partial_path.write_bytes(CONTENT + b"more")
    fetch(server.serve("/f", CONTENT), partial_path, KNOWN)
    assert partial_path.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_client_errors_are_not_retried(server: FileServer, partial_path: Path, status: int) -> None:
    url = server.serve("/f", b"", status=status)
    with pytest.raises(SourceUnavailable, match=str(status)):
        fetch(url, partial_path)
    assert len(server.log) == 1


def test_overloaded_server_is_retried(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", b"", status=503)
    with pytest.raises(SourceUnavailable, match="503"):
        fetch(url, partial_path)
    assert len(server.log) == 5


def test_connection_refused_is_an_error(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT).replace(server.address, "http://127.0.0.1:9")
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        fetch(url, partial_path)


def test_unexpected_size_is_rejected(server: FileServer, partial_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="another file"):
        fetch(server.serve("/f", CONTENT[:-1]), partial_path, KNOWN)


def test_compressed_content_is_rejected(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, headers={"Content-Encoding": "gzip"})
    with pytest.raises(SourceUnavailable, match="encoding"):
        fetch(url, partial_path)


def test_cancelled_download_keeps_the_partial_file(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, hold_after=500_000)
    seen = threading.Event()

    def cancelled() -> bool:
        if partial_path.exists() and partial_path.stat().st_size >= 200_000:
            seen.set()
        return seen.is_set()

    with pytest.raises(PullCancelled):
        fetch(url, partial_path, cancelled=cancelled)
    assert 200_000 <= partial_path.stat().st_size <= 500_000


def test_redirect_to_another_host_drops_the_token(server: FileServer, partial_path: Path) -> None:
    there = server.serve("/there", CONTENT).replace("127.0.0.1", "localhost")
    url = server.serve("/f", b"", status=302, headers={"Location": there})
    fetch(url, partial_path, headers={"Authorization": "Bearer secret"})
    assert partial_path.read_bytes() == CONTENT
    assert [request.headers.get("authorization") for request in server.log] == [
        "Bearer secret",
        None,
    ]


def test_redirect_on_the_same_host_keeps_the_token(server: FileServer, partial_path: Path) -> None:
    server.serve("/there", CONTENT)
    url = server.serve("/f", b"", status=307, headers={"Location": "/there"})
    fetch(url, partial_path, headers={"Authorization": "Bearer secret"})
    assert [request.headers.get("authorization") for request in server.log] == ["Bearer secret"] * 2


def test_redirect_loop_is_an_error(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", b"", status=302, headers={"Location": "/f"})
    with pytest.raises(SourceUnavailable, match="without end"):
        fetch(url, partial_path)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://93.184.215.14/f", "without https"),
        ("https://127.0.0.1/f", "inside this network"),
        ("https://169.254.169.254/latest/meta-data", "inside this network"),
        ("https://10.0.0.1/f", "inside this network"),
        ("https://[::1]/f", "inside this network"),
        ("https://[::ffff:10.0.0.1]/f", "inside this network"),
        ("file:///etc/passwd", "without https"),
    ],
)
def test_public_host_cannot_redirect_to_a_private_address(
    partial_path: Path, location: str, reason: str
) -> None:
    requested: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requested.append(request.url.host)
        return httpx.Response(302, headers={"Location": location})

    with pytest.raises(SourceUnavailable, match=reason):
        fetch("https://93.184.215.14/f", partial_path, transport=httpx.MockTransport(answer))
    assert requested == ["93.184.215.14"]


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/f",
        "ftp://example.com/f",
        "https://",
        "https://user:pw@example.com/f",
        "x",
    ],
)
def test_unsafe_urls_are_rejected(partial_path: Path, url: str) -> None:
    with pytest.raises(SourceUnavailable):
        fetch(url, partial_path)


def test_body_longer_than_its_range_is_rejected(partial_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        chunks = (CONTENT for _ in range(3))
        return httpx.Response(200, content=chunks)

    with pytest.raises(SourceUnavailable, match="more than"):
        fetch("https://93.184.215.14/f", partial_path, KNOWN, transport=httpx.MockTransport(answer))
    assert not partial_path.exists()


def test_wrong_range_is_rejected(partial_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "range" in request.headers:
            total = len(CONTENT)
            headers = {"Content-Range": f"bytes 5-{total - 1}/{total}"}
            return httpx.Response(206, headers=headers, content=iter([CONTENT[5:]]))
        return httpx.Response(200, content=iter([CONTENT]))

    partial_path.write_bytes(CONTENT[:1000])
    fetch("https://93.184.215.14/f", partial_path, KNOWN, transport=httpx.MockTransport(answer))
    assert partial_path.read_bytes() == CONTENT


def test_html_page_is_rejected(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", CONTENT, headers={"Content-Type": "text/html; charset=utf-8"})
    with pytest.raises(SourceUnavailable, match="web page instead of the file") as caught:
        fetch(url, partial_path, KNOWN)
    assert "login" in (caught.value.hint or "")
    assert not partial_path.exists()


def test_error_contains_the_servers_explanation(server: FileServer, partial_path: Path) -> None:
    url = server.serve("/f", b"", status=403)
    with pytest.raises(SourceUnavailable) as caught:
        fetch(url, partial_path, refusals={403: ("It is for members", "Join.")})
    assert caught.value.message == "It is for members (127.0.0.1 answers 403)."
    assert caught.value.hint == "Join."
