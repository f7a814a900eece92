"""Attacks from web pages in a real browser: CSRF, DNS rebinding and reading of answers."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from .conftest import WatchedDaemon

    WatchDaemon = Callable[..., WatchedDaemon]

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
    pytest.mark.skipif(sys.platform != "linux", reason="the browser is driven over pipes"),
]

OWN_GUARDS = (
    "LocalNetworkAccessChecks",
    "PrivateNetworkAccessSendPreflights",
    "BlockInsecurePrivateNetworkRequests",
)
"""Chromium's own protections for local addresses, disabled so that only ours are tested."""

SCRIPT = (Path(__file__).parent / "browser_attack.js").read_text()
PAGE = f"<!doctype html><meta charset=utf-8><body><script>{SCRIPT}</script>"
REBOUND = "rebound.example"


class Browser:
    """Headless Chromium, driven by the DevTools protocol over a pair of pipes."""

    def __init__(self, profile: Path) -> None:
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        arguments = [
            str(CHROMIUM),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            f"--disable-features={','.join(OWN_GUARDS)}",
            f"--host-resolver-rules=MAP evil.example 127.0.0.1, MAP {REBOUND} 127.0.0.1",
        ]
        # The browser reads commands from descriptor 3 and answers on 4.
        script = f"exec {shlex.join(arguments)} 3<&{commands} 4>&{answers}"
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script],
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._next = 0
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")

    def attack(self, page: str, base: str, function: str = "attack") -> dict[str, str]:
        """Open `page`, and run its attack against `base`; returns what the page could read."""
        self._call("Page.navigate", url=page)
        expression = f"""new Promise(done => {{
            const wait = () => typeof {function} == 'function' && document.body
                ? {function}({json.dumps(base)}).then(done) : setTimeout(wait, 20);
            wait();
        }})"""
        found = self._call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return json.loads(found["result"]["value"])

    def serve_attack_page(self, url: str) -> None:
        """Answer this URL with the attacker's page, whatever its host resolves to."""
        self._call("Fetch.enable", patterns=[{"urlPattern": url}])

    def close(self) -> None:
        """Kill it with all its processes."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = self._send(method, parameters)
        while True:
            message = self._receive()
            if message.get("method") == "Fetch.requestPaused":
                self._answer_with_page(message["params"]["requestId"])
            elif message.get("id") == number:
                assert "error" not in message, message
                return cast("dict[str, Any]", message["result"])

    def _answer_with_page(self, request: str) -> None:
        headers = [{"name": "Content-Type", "value": "text/html"}]
        body = base64.b64encode(PAGE.encode()).decode()
        answer = {"requestId": request, "responseCode": 200, "responseHeaders": headers}
        self._send("Fetch.fulfillRequest", {**answer, "body": body})

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._next

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._in, 65536)
            assert part, "the browser has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser with an empty profile."""
    browser = Browser(tmp_path / "profile")
    yield browser
    browser.close()


@pytest.fixture
def attacker() -> Iterator[int]:
    """The port of a web server whose pages all attack."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def refused_requests(daemon: WatchedDaemon) -> int:
    """The number of requests that the daemon refused, which proves that the attacks arrived."""
    return len(re.findall(r" \(no route\) 40\d ", daemon.log.read_text()))


def check_nothing_was_read(got: dict[str, str]) -> None:
    """A no-cors request shows of its answer only that there was one."""
    harmless = ("refused", "nothing", "opaque 0 ")
    readable = {name: text for name, text in got.items() if text not in harmless}
    # A frame with the refusal is displayed, but the page cannot read it.
    assert readable == {}
    assert len(got) == 21


@pytest.mark.parametrize(
    "page",
    ["same machine", "another site", "file", "sandbox", "rebound", "localhost"],
)
def test_web_pages_can_neither_read_nor_change_anything(
    watch_daemon: WatchDaemon, browser: Browser, attacker: int, tmp_path: Path, page: str
) -> None:
    daemon = watch_daemon(INGLE_ACCESS_LOG="true")
    before = daemon.snapshot()
    base, function = f"http://127.0.0.1:{daemon.port}", "attack"
    match page:
        case "same machine":
            url = f"http://127.0.0.1:{attacker}/"
        case "another site":
            url = f"http://evil.example:{attacker}/"
        case "localhost":
            url, base = f"http://evil.example:{attacker}/", f"http://localhost:{daemon.port}"
        case "file":
            path = tmp_path / "page.html"
            path.write_text(PAGE)
            url = path.as_uri()
        case "sandbox":
            url, function = f"http://evil.example:{attacker}/", "attackFromSandbox"
        case _:
            # The page came from the attacker's server; now its host name resolves to the daemon.
            base = f"http://{REBOUND}:{daemon.port}"
            url = f"{base}/page"
            browser.serve_attack_page(url)
    got = browser.attack(url, base, function)
    assert refused_requests(daemon) >= 15, daemon.log.read_text()
    if page == "rebound":
        # It is same-origin now and may read answers, but it only gets the refusal.
        got = {name: text for name, text in got.items() if not is_refusal(text)}
        harmless = ("refused", "nothing")
        assert not [text for text in got.values() if text not in harmless], got
    else:
        check_nothing_was_read(got)
    assert daemon.snapshot() == before


def is_refusal(text: str) -> bool:
    """Whether this is the error of a refused request."""
    sentences = ("The Host header must name this machine", "comes from a web page that may not")
    return any(sentence in text for sentence in sentences)


def test_only_allowed_origins_may_use_the_daemon(
    watch_daemon: WatchDaemon, browser: Browser, attacker: int
) -> None:
    """The counterpart: what is refused to others works for an allowed origin."""
    daemon = watch_daemon(INGLE_ALLOWED_ORIGINS=f"http://evil.example:{attacker}")
    base = f"http://127.0.0.1:{daemon.port}"
    got = browser.attack(f"http://127.0.0.1:{attacker}/", base)
    check_nothing_was_read(got)
    got = browser.attack(f"http://evil.example:{attacker}/", base, "visit")
    assert got["get"].startswith("cors 200 ")
    assert got["json post"].startswith("cors 200 ")
    assert "scripted model" in got["json post"]
    assert got["simple post"] == "refused"  # not labelled as JSON, which any page can send
