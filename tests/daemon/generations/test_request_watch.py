"""What the owner sees of requests while watching, and that nothing is kept otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ingle.daemon.cli.server.watch import lines
from ingle.daemon.client.watch_types import PrefixBreak, WatchedRequest
from ingle.daemon.generations.request_watch import prefix_break
from tests.daemon.conftest import DaemonFactory, RunningDaemon

Json = dict[str, Any]


@asynccontextmanager
async def watching(daemon: RunningDaemon) -> AsyncGenerator[asyncio.Queue[Json]]:
    """Watch, and collect the requests."""
    seen: asyncio.Queue[Json] = asyncio.Queue()
    begun = asyncio.Event()

    async def follow() -> None:
        async with daemon.unix.stream("GET", "/ingle/v1/watch") as stream:
            begun.set()
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    seen.put_nowait(json.loads(line.removeprefix("data: ")))

    following = asyncio.create_task(follow())
    await begun.wait()
    try:
        yield seen
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def chat(daemon: RunningDaemon, system: str, **more: Any) -> httpx.Response:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Hi"}]
    body = {"model": "echo:1", "messages": messages, "max_tokens": 4, **more}
    return await daemon.tcp.post("/v1/chat/completions", json=body, headers={"user-agent": "ag/2"})


async def next_of(seen: asyncio.Queue[Json]) -> Json:
    return await asyncio.wait_for(seen.get(), 30)


async def test_requests_are_shown_as_they_end(run_daemon: DaemonFactory) -> None:
    async with run_daemon() as daemon, watching(daemon) as seen:
        assert (await chat(daemon, "It is Monday, be brief.")).status_code == 200
        first = await next_of(seen)
        assert (await chat(daemon, "It is Tuesday, be brief.")).status_code == 200
        second = await next_of(seen)
        prompt = (await daemon.unix.get(f"/ingle/v1/watch/{second['id']}")).json()["text"]
        body = {"model": "echo:1", "messages": [{"role": "user", "content": "Hi"}]}
        await daemon.tcp.post("/ingle/v1/generations", json={**body, "max_tokens": 4})
        native = await next_of(seen)
    assert (first["client"], first["path"], first["model"]) == (
        "ag/2",
        "/v1/chat/completions",
        "echo:1",
    )
    assert (first["messages"], first["tools"], first["prefix"]) == (2, 0, None)
    assert first["prompt_tokens"] > 0
    assert first["completion_tokens"] == 4
    assert first["outcome"] == "length"
    assert "It is Tuesday, be brief." in prompt
    broken = second["prefix"]
    assert broken["before"].startswith("Monday, be brief.")
    assert broken["after"].startswith("Tuesday, be brief.")
    assert prompt.encode()[broken["at"] :].startswith(b"Tuesday")
    assert broken["of"] == len(prompt.encode())
    assert native["path"] == "/ingle/v1/generations"


async def test_nothing_private_is_shown_and_nothing_is_kept(run_daemon: DaemonFactory) -> None:
    async with run_daemon() as daemon:
        watch = daemon.services.generations.watch
        await chat(daemon, "Before anyone watches.")
        assert vars(watch)["_prompts"] == {}
        async with watching(daemon) as seen:
            await chat(daemon, "A private matter.", ingle={"private": True})
            await chat(daemon, "Another.")
            shown = await next_of(seen)
            assert len(vars(watch)["_prompts"]) == 1
            assert seen.empty()
        await daemon.until(lambda: vars(watch)["_prompts"] == {})
        gone = await daemon.unix.get(f"/ingle/v1/watch/{shown['id']}")
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")


async def test_errors_are_shown(run_daemon: DaemonFactory) -> None:
    async with run_daemon() as daemon, watching(daemon) as seen:
        assert (await chat(daemon, "word " * 2000)).status_code == 400
        failed = await next_of(seen)
    assert failed["outcome"] == "failed"
    assert "512" in failed["error"]


@pytest.mark.parametrize(
    ("earlier", "text", "found"),
    [
        ([], "abc", None),
        (["ab", "x"], "abc", None),
        (["abX", "aYY"], "abc", (2, 3, "X", "c")),
        (["é1"], "é2", (2, 3, "1", "2")),
        (["abcd"], "ab", (2, 2, "cd", "")),
    ],
)
def test_prefix_break(earlier: list[str], text: str, found: tuple[Any, ...] | None) -> None:
    broken = prefix_break(earlier, text)
    assert (broken and (broken.at, broken.of, broken.before, broken.after)) == found


def test_lines_fit_a_terminal() -> None:
    request = WatchedRequest(
        id="a",
        time=0.0,
        client="claude-cli/2.1.329 (external)",
        path="/v1/messages",
        model="qwen2.5-coder:1.5b\x1b[2J",
        messages=32,
        tools=18,
        prompt_tokens=17203,
        cached_tokens=16900,
        completion_tokens=310,
        seconds=5.0,
        queue_seconds=0.1,
        prompt_seconds=0.3,
        decode_seconds=4.1,
        calls=["Bash", "Read"] * 9,
        outcome="tool_calls",
        error="Something " * 12,
        prefix=PrefixBreak(at=51230, of=68112, before="2026-11-27\n" * 5, after="2026-11-28"),
    )
    shown = lines(request)
    assert max(map(len, shown)) <= 80
    text = "\n".join(shown)
    assert "17,203 tokens, 16,900 of them cached" in text
    assert "first token after 0.4 s, then 310 in 4.1 s; tool calls" in text
    assert "prefix broke at byte 51,230 of 68,112:" in text
    assert "\x1b" not in text
