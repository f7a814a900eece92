"""The tool that fetches pages: which addresses, what leaves, what the ledger says."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ingle.daemon.documents.page_text import page_text
from ingle.daemon.tools.departures import Departures
from ingle.daemon.tools.fetch_page import FetchPage
from ingle.daemon.tools.tool import ToolFailed, ToolOutcome
from ingle.daemon.web import public_addresses, web_address
from ingle.daemon.web.public_addresses import is_public
from ingle.daemon.web.web_address import checked_url

from ...harness.tool_client import tool_client
from ..conftest import RunningDaemon

PRIVATE = (
    *(
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
    ),
    *("100.64.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "::1", "::"),
    *(
        "fe80::1%eth0",
        "fc00::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "ff02::1",
    ),
    *("2002:7f00:1::", "64:ff9b:1::1", "2001:db8::1", "localhost", ""),
)


class Site(BaseHTTPRequestHandler):
    """A web site whose paths are its answers."""

    asked: list[tuple[str, dict[str, str]]] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.asked.append((self.path, dict(self.headers)))
        kind, _, target = self.path[1:].partition("/")
        status = {"to": 302, "missing": 404}.get(kind, 200)
        self.send_response(status)
        if kind == "to":
            self.send_header("Location", target)
        if kind == "zip":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", "image/png" if kind == "png" else "text/html")
        self.end_headers()
        if kind == "endless":
            try:
                while True:
                    self.wfile.write(b"<p>word " * 4096)
            except OSError:
                return
        self.wfile.write(b"<title>A page</title><script>evil()</script><p>Hello &amp; good day")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Be silent."""


def _is_this_machine(address: str) -> bool:
    return address == "127.0.0.1"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A site on this machine, whose address counts as public."""
    monkeypatch.setattr(Site, "asked", [])
    for module in (web_address, public_addresses):
        monkeypatch.setattr(module, "is_public", _is_this_machine)
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def fetched(tool: FetchPage, url: str) -> ToolOutcome:
    plan = await tool.plan("1", json.dumps({"url": url}), print)
    assert plan.terms is not None
    return await plan.run()


async def test_page_is_fetched_as_text_and_recorded(daemon: RunningDaemon, site: str) -> None:
    tool = FetchPage(Departures(str(daemon.socket), private=False))
    plan = await tool.plan("1", json.dumps({"url": f"{site}/a b?q=ä#part"}), print)
    assert plan.terms is not None
    assert plan.terms.preview == f"{site}/a%20b?q=%C3%A4"
    assert "127.0.0.1" in plan.terms.leaves
    assert Site.asked == []
    outcome = await plan.run()
    assert outcome.text == "A page\nHello & good day"
    ((path, headers),) = Site.asked
    assert path == "/a%20b?q=%C3%A4"
    assert set(headers) == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}
    (entry,) = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert (entry["provider"], entry["model"]) == ("tool:fetch_page", "127.0.0.1")
    assert entry["outcome"] == "complete"
    assert entry["bytes_out"] > 100
    assert entry["bytes_in"] > 50


async def test_redirects_are_followed_on_the_same_host_only(
    daemon: RunningDaemon, site: str
) -> None:
    tool = FetchPage(Departures(str(daemon.socket), private=False))
    assert "Hello" in (await fetched(tool, f"{site}/to/{site}/page")).text
    for target, reason in {
        "http://10.0.0.1/": "not a public address",
        "http://localhost:1/": "moved to",
        "https://example.org/x": "moved to http",
        "file:///etc/passwd": "Only http",
        f"{site}/to/{site}/to/{site}/to/{site}/to/{site}/to/{site}": "too often",
    }.items():
        with pytest.raises(ToolFailed, match=reason):
            await fetched(tool, f"{site}/to/{target}")
    entries = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert len(entries) == len(Site.asked)


async def test_what_is_no_text_or_has_no_end_is_bounded(daemon: RunningDaemon, site: str) -> None:
    tool = FetchPage(Departures(str(daemon.socket), private=False))
    assert len((await fetched(tool, f"{site}/endless")).text) < 40_000
    for path, reason in {"png": "image/png", "zip": "compressed", "missing": "404"}.items():
        with pytest.raises(ToolFailed, match=reason):
            await fetched(tool, f"{site}/{path}")


async def test_nothing_is_sent_that_cannot_be_recorded(site: str, tmp_path: Path) -> None:
    for departures in (
        Departures("", private=False),
        Departures(str(tmp_path / "no.sock"), private=False),
        Departures(str(tmp_path / "no.sock"), private=True),
    ):
        with pytest.raises(ToolFailed):
            await fetched(FetchPage(departures), f"{site}/page")
    assert Site.asked == []


async def test_name_is_resolved_once(
    daemon: RunningDaemon, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name whose second answer is another address leads nowhere else."""
    answers: list[str] = []
    port = int(site.rpartition(":")[2])

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        answers.append(host)
        address = "127.0.0.1" if len(answers) == 1 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    real = asyncio.get_running_loop().getaddrinfo
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", by_name(resolve, real))
    tool = FetchPage(Departures(str(daemon.socket), private=False))
    assert "Hello" in (await fetched(tool, f"http://rebinding.test:{port}/")).text
    assert answers == ["rebinding.test"]
    with pytest.raises(ToolFailed, match="private network"):
        await fetched(tool, f"http://rebinding.test:{port}/")


def by_name(resolve: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(host: str, *arguments: Any, **options: Any) -> Any:
        return (resolve if host == "rebinding.test" else real)(host, *arguments, **options)

    return chosen


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_addresses_that_are_public() -> None:
    for address in ("93.184.215.14", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"):
        assert is_public(address)


async def test_host_fetches_no_private_page(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Name in the table: `fetch an address of this machine or of a private network`."""
    folder = tmp_path / "project"
    folder.mkdir()
    urls = (
        *("http://127.0.0.1/", "http://localhost/", "http://2130706433/", "http://0x7f000001/"),
        *("http://0177.0.0.1/", "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://127.1/"),
        *("http://169.254.169.254/latest/", "file:///etc/passwd", "http://user:pw@example.org/"),
        *("gopher://example.org/", "http://", "http:///x", "javascript:1", "http://a\x00b/"),
        f"http://example.org/{'x' * 3000}",
    )
    async with tool_client(folder, socket=str(daemon.socket)) as client:
        for url in urls:
            assert (await client.call("fetch_page", url=url)).failed, url
    entries = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert {entry["bytes_in"] for entry in entries} <= {0}


def test_addresses_are_written_in_ascii() -> None:
    assert (
        checked_url("HTTPS://Bücher.example/ü?a=b c")
        == "https://xn--bcher-kva.example/%C3%BC?a=b%20c"
    )
    assert checked_url("http://example.org:8080") == "http://example.org:8080/"


def test_text_of_pages() -> None:
    page = (
        "<html><head><title>T</title><style>x</style></head><body>a<br>b<!-- no -->c 1 < 2</body>"
    )
    assert page_text(page) == "T\na\nbc 1 < 2"
    assert page_text("<SCRIPT>x</SCRIPT>y<script>z") == "y"
    assert page_text("&lt;b&gt; İ<script>x</script> ok") == "<b> İ ok"


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<script", "<p", "<title", "</script", "&#", "<p x='>"]
)
def test_text_of_any_page_takes_linear_time(piece: str) -> None:
    def steps(count: int) -> int:
        _Counted.searched = 0
        page_text(_Counted(piece * count))
        return _Counted.searched

    assert steps(4_000) < 6 * steps(1_000) + 500_000


class _Counted(str):
    """Text that counts the characters that searches in it may read."""

    searched = 0

    def find(self, *arguments: Any) -> int:
        found = super().find(*arguments)
        start = arguments[1] if len(arguments) > 1 else 0
        _Counted.searched += (found if found >= 0 else len(self)) - start
        return found

    def translate(self, table: Any) -> _Counted:
        return _Counted(super().translate(table))
