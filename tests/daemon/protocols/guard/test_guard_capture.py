"""What leaves of an agent's requests: no planted value, and every other byte as it was sent."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.protocols.guard.conftest import BODIES, Upstream, begin
from tests.daemon.protocols.guard.planted_values import (
    PLANTED,
    file_with,
    on_the_wire,
    whole_file,
)

LOGIN = {"authorization": "Bearer sk-ant-oat01-my-own-login", "anthropic-beta": "oauth-2025-04-20"}
PLACEHOLDER = re.compile(rb"\\\[[A-Z_]+_\d+[B-Z]?\\\]")


async def send(daemon: RunningDaemon, path: str, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json", "x-new-header": "1", **LOGIN}
    return await daemon.tcp.post(path, content=body, headers=headers, timeout=60)


def write_policy(daemon: RunningDaemon) -> None:
    path = daemon.services.router.policy.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('words = ["Project Heron"]\n')


def is_masked_only(sent: bytes, body: bytes) -> bool:
    """Whether what was sent differs from the body only by placeholders."""
    pattern = PLACEHOLDER.sub(rb"[\\s\\S]+?", re.escape(sent))
    return re.fullmatch(pattern, body) is not None


@pytest.mark.parametrize("protocol", BODIES)
@pytest.mark.parametrize("strict", [pytest.param(True, marks=pytest.mark.slow), False])
async def test_no_planted_value_leaves(
    run_daemon: DaemonFactory, upstream: Upstream, protocol: str, strict: bool
) -> None:
    path, make_body = BODIES[protocol]
    async with run_daemon() as daemon:
        write_policy(daemon)
        base = await begin(daemon, upstream, strict=strict)
        alone = PLANTED if protocol == "messages" else list(PLANTED)[::4]
        bodies = [make_body(text) for text in (*map(file_with, alone), whole_file())]
        slow = 0
        for body in bodies:
            before = len(upstream.requests)
            answer = await send(daemon, base + path, body)
            if answer.status_code == 400:
                assert "ingle did not send this request" in answer.text
                slow += "could not be scanned" in answer.text  # in time, on a busy machine
                assert len(upstream.requests) == before
            else:
                assert answer.status_code == 200
                assert is_masked_only(upstream.bodies[-1], body)
        assert on_the_wire(upstream.everything) == []
        summary = (await daemon.unix.delete(f"/ingle/v1/guard/{base.rsplit('/', 1)[1]}")).json()
    assert summary["sent"] == summary["redacted"] == len(upstream.requests) > 0
    assert summary["sent"] + summary["refused"] == len(bodies)
    assert (summary["refused"] > slow) is strict
    assert json.dumps(summary).isascii()


async def test_no_planted_value_leaves_in_calls_of_tools(
    run_daemon: DaemonFactory, upstream: Upstream
) -> None:
    """Files that the agent writes, in arguments as objects and as JSON in a string."""
    written = {"file_path": "a.txt", "lines": [whole_file()], "content": f"\n\t{whole_file()}"}
    anthropic = json.loads(BODIES["messages"][1]("ok"))
    anthropic["messages"][1]["content"][0]["input"] = written
    chat = json.loads(BODIES["chat"][1]("ok"))
    chat["messages"][2]["tool_calls"][0]["function"]["arguments"] = json.dumps(written)
    responses = json.loads(BODIES["responses"][1]("ok"))
    responses["input"][1]["arguments"] = json.dumps(written, ensure_ascii=False)
    async with run_daemon() as daemon:
        write_policy(daemon)
        base = await begin(daemon, upstream)
        for name, body in (("messages", anthropic), ("chat", chat), ("responses", responses)):
            sent = json.dumps(body).encode()
            answer = await send(daemon, base + BODIES[name][0], sent)
            assert answer.status_code == 200, answer.text
            assert is_masked_only(upstream.bodies[-1], sent)
            json.loads(upstream.bodies[-1])
    json.loads(
        json.loads(upstream.bodies[1])["messages"][2]["tool_calls"][0]["function"]["arguments"]
    )
    assert on_the_wire(upstream.everything) == []
