"""`ingle guard`: a program of the user's, between it and a provider that records everything."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from ingle.daemon.cli.routing.guarded_programs import CHATGPT, guarded, upstreams
from ingle.daemon.main import main
from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.protocols.guard.conftest import Upstream, upstream

__all__ = ["upstream"]

EMAIL = "ruth.hollander@brandtlogistik.de"
AGENT = """
import json, os, sys, urllib.request
text = open(sys.argv[1]).read()
body = {"model": "claude", "messages": [{"role": "user", "content": text}]}
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
    json.dumps(body).encode(),
    {"content-type": "application/json", "authorization": "Bearer my-login"},
)
print(urllib.request.urlopen(request).read().decode())
sys.exit(3)
"""


async def run(home: Path, provider: Upstream, *arguments: str) -> tuple[int, str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INGLE_")}
    environ |= {"INGLE_HOME": str(home), "ANTHROPIC_BASE_URL": provider.url}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ingle.daemon.main", "guard", *arguments),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


async def test_a_program_is_guarded(
    run_daemon: DaemonFactory, ingle_home: Path, tmp_path: Path, upstream: Upstream
) -> None:
    file = tmp_path / "contact.txt"
    file.write_text(f"The contact of the shop is {EMAIL}, as before.")
    body = b'{"content":[{"type":"text","text":"Hello [EMAIL_1]"}]}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    upstream.pieces = [head % len(body), body]
    async with run_daemon() as daemon:
        status, output, errors = await run(
            ingle_home, upstream, "--", sys.executable, "-c", AGENT, str(file)
        )
        assert await _runs(daemon) == 404
    assert status == 3, errors
    assert json.loads(output) == {"content": [{"type": "text", "text": f"Hello {EMAIL}"}]}
    assert b"authorization: Bearer my-login" in upstream.everything
    assert EMAIL.encode() not in upstream.everything
    assert errors.startswith("Guarded: 1 request left (")
    assert "1 of them masked (email); 0 refused, 0 answered here." in errors


async def _runs(daemon: RunningDaemon) -> int:
    return (await daemon.unix.delete("/ingle/v1/guard/any")).status_code


async def test_a_program_that_goes_elsewhere_is_noticed(
    run_daemon: DaemonFactory, ingle_home: Path, upstream: Upstream
) -> None:
    async with run_daemon():
        status, output, errors = await run(
            ingle_home, upstream, "--", sys.executable, "-c", "print(1)"
        )
        as_json = await run(
            ingle_home, upstream, "--json", "--", sys.executable, "-c", "import sys; sys.exit(0)"
        )
    assert (status, output) == (0, "1\n")
    assert errors.startswith("Warning: no request came through the guard.")
    assert json.loads(as_json[1])["sent"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "No program was named."),
        (["emacs"], "ingle does not know how to guard 'emacs'."),
        (["--"], "No program was named."),
        (["--", "no-such-program-here"], "There is no program 'no-such-program-here'."),
    ],
)
def test_wrong_command_lines(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["guard", *arguments]) in (1, 2)
    assert message in capsys.readouterr().err


def test_each_program_gets_its_address() -> None:
    base = "http://127.0.0.1:4645/guard/s"
    line, variables = guarded(["claude", "-p", "hi"], base, {})
    assert line[0] == "claude"
    assert line[-2:] == ["-p", "hi"]
    assert json.loads(line[2]) == {"env": {"ANTHROPIC_BASE_URL": f"{base}/anthropic"}}
    assert variables["ANTHROPIC_BASE_URL"] == f"{base}/anthropic"
    line, _ = guarded(["codex", "exec", "hi"], base, {})
    assert line[1:3] == ["-c", 'model_provider="ingle-guard"']
    assert f'base_url="{base}/openai"' in line[4]
    assert "requires_openai_auth=true" in line[4]
    own = {"OPENCODE_CONFIG_CONTENT": '{"model": "anthropic/claude"}'}
    _, variables = guarded(["opencode"], base, own)
    config = json.loads(variables["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == "anthropic/claude"
    assert config["provider"]["openai"]["options"] == {"baseURL": f"{base}/openai"}
    assert config["provider"]["anthropic"]["options"] == {"baseURL": f"{base}/anthropic/v1"}


def test_servers_are_those_the_program_would_use() -> None:
    assert upstreams({}) == {
        "anthropic": "https://api.anthropic.com",
        "openai": "https://api.openai.com/v1",
        "chatgpt": CHATGPT,
    }
    gateways = {
        "ANTHROPIC_BASE_URL": "https://a.example",
        "OPENAI_API_BASE": "https://b.example/v1",
    }
    assert upstreams(gateways) == {
        "anthropic": "https://a.example",
        "openai": "https://b.example/v1",
    }
