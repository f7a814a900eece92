"""Cloud agents through `ingle guard`, to a stand-in for their provider that records what arrives.

The agent reads a file with its own tool. A scripted model behind the stand-in sees placeholders
only, and what it writes of them is what the file says in the agent's answer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Daemon, Installed, Runner

pytestmark = [pytest.mark.model, pytest.mark.clients]

EMAIL = "ruth.hollander@brandtlogistik.de"
KEY = "ghp_x8Kd02LmQz71VbNcRt5YwUo3HsJaGfEe9PiX"
NOTES = f"The contact of the shop is {EMAIL}, as before.\nGH_TOKEN={KEY}\n"
AFTER = {"[EMAIL_1], as before": "The contact is [EMAIL_1], the token [API_KEY_1]."}
ANSWER = f"The contact is {EMAIL}, the token {KEY}."
LOGIN = "sk-ant-oat01-of-my-own-subscription"

MakeToolCall = Callable[..., str]


class Provider(ThreadingHTTPServer):
    """Answers with a daemon's models at `/v1`, and records requests."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = daemon.url
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.received: list[tuple[str, dict[str, str], bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        provider = self.server
        assert isinstance(provider, Provider)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        provider.received.append((self.path, headers, body))
        path = "/v1/" + self.path.removeprefix("/v1").lstrip("/")
        kept = {"content-type": headers.get("content-type", "application/json")}
        answer = httpx.request(
            self.command, provider.models + path, content=body, headers=kept, timeout=600
        )
        self.send_response(answer.status_code)
        self.send_header("content-type", answer.headers.get("content-type", ""))
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        return


@pytest.fixture
def provider(daemon: Daemon) -> Iterator[Provider]:
    """A running stand-in."""
    server = Provider(daemon)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def guard(
    daemon: Daemon, run_client: Runner, *command: str, path: list[Path], env: dict[str, str]
) -> str:
    (run_client.work / "notes.txt").write_text(NOTES)
    ingle = (sys.executable, "-m", "ingle.daemon.main", "guard")
    environ = {"INGLE_HOME": str(daemon.home), "INGLE_SOCKET": str(daemon.socket), **env}
    return run_client(*ingle, *command, path=path, env=environ)


def test_claude_code_is_guarded(
    daemon: Daemon,
    provider: Provider,
    installed: Installed,
    run_client: Runner,
    make_tool_call: MakeToolCall,
) -> None:
    call = make_tool_call("Bash", command="cat notes.txt", description="Read the notes")
    model = daemon.install_scripted("claude-guarded", first=call, after=AFTER)
    program = installed.path("claude-code", "node_modules", ".bin", "claude")
    output = guard(
        daemon,
        run_client,
        *("claude", "-p", "Read the notes.", "--allowedTools", "Bash"),
        path=[program.parent],
        env={
            "ANTHROPIC_BASE_URL": provider.url,
            "CLAUDE_CODE_OAUTH_TOKEN": LOGIN,
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": model,
        },
    )
    assert ANSWER in output
    check(provider, f"Bearer {LOGIN}")


def test_codex_is_guarded(
    daemon: Daemon,
    provider: Provider,
    installed: Installed,
    run_client: Runner,
    make_tool_call: MakeToolCall,
) -> None:
    call = make_tool_call("exec_command", cmd="cat notes.txt")
    model = daemon.install_scripted("codex-guarded", first=call, after=AFTER)
    program = installed.path("codex", "node_modules", ".bin", "codex")
    output = guard(
        daemon,
        run_client,
        *("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("-m", model, "Read the notes."),
        path=[program.parent, installed.node()],
        env={"OPENAI_BASE_URL": f"{provider.url}/v1", "CODEX_API_KEY": LOGIN},
    )
    assert ANSWER in output
    check(provider, f"Bearer {LOGIN}")


def check(provider: Provider, login: str) -> None:
    """No value arrived, and each request has the program's own login."""
    assert len(provider.received) >= 2
    for path, headers, body in provider.received:
        assert headers["authorization"] == login, path
        assert EMAIL.encode() not in body
        assert KEY.encode() not in body
    assert b"[API_KEY_1]" in provider.received[-1][2]
