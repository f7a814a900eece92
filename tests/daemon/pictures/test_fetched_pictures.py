"""Pictures that are given by their addresses, from a server that may be hostile."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.backends.base.conversation import ChatMessage, Picture
from ingle.backends.base.errors import BackendError
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.access.api_keys import KeyLimitation, KeyStore
from ingle.daemon.pictures import picture_decoder
from ingle.daemon.routing.egress import picture_fetcher
from ingle.daemon.web import public_addresses, web_address

from .seeing_daemon import png, seeing_daemon

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

CHAT = "/v1/chat/completions"


class Site(BaseHTTPRequestHandler):
    """A web site whose paths are its answers."""

    asked: list[str] = []  # noqa: RUF012
    stopped = threading.Event()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        kind, _, target = self.path[1:].partition("/")
        self.send_response({"to": 302, "missing": 404}.get(kind, 200))
        if kind == "to":
            self.send_header("Location", target)
        self.send_header("Content-Type", "image/png")
        self.end_headers()
        if kind == "endless":
            try:
                while True:
                    self.wfile.write(bytes(2**20))
            except OSError:
                return
        if kind == "silent":
            self.stopped.wait(10)
        if kind == "png":
            self.wfile.write(png(int(target)))
        elif kind == "text":
            self.wfile.write(b"<html>an error</html>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Be silent."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A site on this machine whose address, 127.0.0.2, counts as public; 127.0.0.1 does not."""
    monkeypatch.setattr(Site, "asked", [])
    monkeypatch.setattr(Site, "stopped", threading.Event())
    for module in (web_address, public_addresses):
        monkeypatch.setattr(module, "is_public", "127.0.0.2".__eq__)
    with ThreadingHTTPServer(("127.0.0.2", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.2:{server.server_port}"
        Site.stopped.set()
        server.shutdown()
        thread.join()


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncIterator[RunningDaemon]:
    async with run_daemon(picture_urls=True) as running:
        yield running


def part(address: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address}}


def asked(address: str) -> dict[str, Any]:
    return {"role": "user", "content": [part(address)]}


async def decoded(daemon: RunningDaemon, address: str, *, private: bool = False) -> Picture:
    message = ChatMessage("user", "", pictures=[Picture(address=address)])
    request = GenerateRequest(id="g", messages=[message], private=private)
    answer = await daemon.services.manager.pictures.decoded(request)
    return (answer.messages or [])[0].pictures[0]


async def ledger(daemon: RunningDaemon) -> list[tuple[str, str, str]]:
    daemon.services.egress.flush()
    entries = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    return [(entry["provider"], entry["model"], entry["outcome"]) for entry in entries]


@pytest.mark.slow
async def test_model_sees_a_fetched_picture_and_the_ledger_has_it(
    run_daemon: DaemonFactory, tmp_path: Path, site: str
) -> None:
    async with seeing_daemon(run_daemon, tmp_path, picture_urls=True) as daemon:
        content = [part(f"{site}/to/{site}/png/1"), {"type": "text", "text": "what?"}]
        body = {"model": "seeing", "messages": [{"role": "user", "content": content}]}
        first, again = [
            (await daemon.tcp.post(CHAT, json={**body, "max_tokens": 2})).json()["usage"]
            for _ in range(2)
        ]
        assert first["prompt_tokens"] == again["prompt_tokens"] > 10
        # The second turn has it already.
        assert Site.asked == [f"/to/{site}/png/1", "/png/1"]
        assert await ledger(daemon) == [("picture", "127.0.0.2", "complete")] * 2


async def test_hostile_servers_cost_one_request(
    daemon: RunningDaemon, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = site.rpartition(":")[2]
    monkeypatch.setattr(picture_decoder, "MOST_BYTES", 2**22)
    for path, words in {
        "to/http://127.0.0.1:9/": "127.0.0.1 is not a public address",
        f"to/http://localhost:{port}/png/1": "private network",
        "to/http://169.254.169.254/latest/meta-data": "not a public address",
        "to/http://[::ffff:169.254.169.254]/": "not a public address",
        "to/file:///etc/passwd": "Only http",
        "/".join([f"to/{site}"] * 7): "too often",
        "endless": "more than 4 MiB",
        "text": "no PNG",
        "missing": "status 404",
    }.items():
        with pytest.raises(BackendError) as refused:
            await decoded(daemon, f"{site}/{path}")
        assert words in refused.value.message, path
        assert refused.value.code == "invalid_picture"
    # Recorded before the name was resolved.
    unsent = ("picture", "localhost", "failed")
    entries = await ledger(daemon)
    assert unsent in entries
    assert len(entries) == len(Site.asked) + 1
    with monkeypatch.context() as patch:
        patch.setattr(picture_fetcher, "SECONDS", 0.2)
        with pytest.raises(BackendError, match="took longer"):
            await decoded(daemon, f"{site}/silent")
    assert (await decoded(daemon, f"{site}/png/1")).width == 56


async def test_nothing_is_fetched_for_those_that_may_not(daemon: RunningDaemon, site: str) -> None:
    address = f"{site}/png/2"
    body: dict[str, Any] = {"model": "echo:1", "messages": [asked(address)]}
    answer = await daemon.tcp.post(CHAT, json=body)
    assert answer.json()["error"]["code"] == "no_vision"  # it was no reason to refuse
    with pytest.raises(BackendError, match="would tell its server"):
        await decoded(daemon, address, private=True)
    _, key = KeyStore(daemon.services.config.paths.keys).create(
        limitation=KeyLimitation(route="local")
    )
    use = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    shown = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "tool_calls": [use]},
        {"role": "tool", "tool_call_id": "c", "content": [part(address)]},
    ]
    for messages, headers in (([asked(address)], {"Authorization": f"Bearer {key}"}), (shown, {})):
        body = {"model": "echo:1", "messages": messages}
        answer = await daemon.tcp.post(CHAT, json=body, headers=headers)
        assert answer.status_code == 400
        assert "not fetched" in answer.json()["error"]["message"]
    daemon.services.egress.offline = True
    with pytest.raises(BackendError, match="offline"):
        await decoded(daemon, address)
    assert Site.asked == []
    assert await ledger(daemon) == []
