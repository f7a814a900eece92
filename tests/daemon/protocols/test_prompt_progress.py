"""How far a prompt is read reaches clients of each protocol, and what of it was cached."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ingle.daemon.protocols.responses import response_answer
from tests.daemon.conftest import DaemonFactory, RunningDaemon

LONG = "How far has this prompt been read? " * 60
MESSAGES = [{"role": "user", "content": LONG}]
ASKED = {"stream": True, "return_progress": True}
Json = dict[str, Any]


@pytest.fixture
async def daemon(run_daemon: DaemonFactory) -> AsyncGenerator[RunningDaemon]:
    """A daemon whose model reads a long prompt in several steps."""
    async with run_daemon(script={"trained_context": 8192}) as running:
        await running.unix.post("/ingle/v1/load", json={"model": "echo:1", "context": 8192})
        yield running


async def events_of(daemon: RunningDaemon, path: str, **body: Any) -> list[Json]:
    """The events of a stream but its end mark."""
    body = {"model": "echo:1", "max_tokens": 4, **body}
    events = [data for _, data in await daemon.events("POST", path, json=body)]
    return [event for event in events if event != "[DONE]"]


def text_of(event: Json) -> str:
    """The text of a chunk of any of these streams."""
    choices: list[Json] = event.get("choices", [])
    texts = [choice.get("text") or choice.get("delta", {}).get("content") for choice in choices]
    return "".join(text or "" for text in texts) or str(event.get("content", ""))


def check(reports: list[Json]) -> None:
    """Check reports of one prompt, of which nothing was cached."""
    assert len(reports) > 2
    processed = [report["processed"] for report in reports]
    assert processed == sorted(processed)
    assert 0 < processed[1] < processed[-1] == reports[0]["total"]
    assert {report["cache"] for report in reports} == {0}
    assert all(report["time_ms"] >= 0 for report in reports)


async def test_generations_of_the_native_api(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "messages": MESSAGES, "max_tokens": 4}
    path = "/ingle/v1/generations"
    id_ = (await daemon.unix.post(path, json=body)).json()["id"]
    events = await daemon.events("GET", f"{path}/{id_}/events")
    reports = [data for name, data in events if name == "prefill"]
    computed = [report["computed_tokens"] for report in reports]
    assert len(reports) > 2
    assert computed == sorted(set(computed))
    assert 0 <= computed[0] < computed[-1] < reports[0]["prompt_tokens"]


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/chat/completions", {"messages": MESSAGES}),
        ("/v1/completions", {"prompt": LONG}),
        ("/completion", {"prompt": LONG, "n_predict": 4}),
    ],
)
async def test_return_progress(daemon: RunningDaemon, path: str, prompt: Json) -> None:
    events = await events_of(daemon, path, **prompt, **ASKED)
    reports = [event["prompt_progress"] for event in events if "prompt_progress" in event]
    check(reports)
    last = max(n for n, event in enumerate(events) if "prompt_progress" in event)
    assert not "".join(map(text_of, events[: last + 1]))
    assert "".join(map(text_of, events)) == "Hell"
    unasked = await events_of(daemon, path, **prompt, stream=True)
    assert not any("prompt_progress" in event for event in unasked)


async def test_progress_is_not_among_the_ignored_fields(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "messages": MESSAGES, "max_tokens": 1, **ASKED}
    answer = await daemon.tcp.post("/v1/chat/completions", json=body)
    assert "return_progress" not in answer.headers.get("ingle-ignored", "")
    whole = await daemon.tcp.post("/v1/chat/completions", json={**body, "stream": False})
    assert whole.status_code == 200
    assert "prompt_progress" not in whole.text


async def test_pings_of_messages_tell_the_progress(daemon: RunningDaemon) -> None:
    events = await events_of(daemon, "/v1/messages", messages=MESSAGES, stream=True)
    kinds = [event["type"] for event in events]
    pings = [event for event in events if event["type"] == "ping"]
    check([ping["prompt_progress"] for ping in pings])
    assert kinds[: len(pings) + 2] == [
        "message_start",
        *["ping"] * len(pings),
        "content_block_start",
    ]


async def test_responses_repeat_that_they_are_in_progress(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_answer, "PROGRESS_SECONDS", 0.0)
    body = {"model": "echo:1", "input": LONG, "max_output_tokens": 16, "stream": True}
    events = [data for _, data in await daemon.events("POST", "/v1/responses", json=body)]
    began, *progress = [event for event in events if event["type"] == "response.in_progress"]
    assert "ingle" not in began["response"]
    check([event["response"]["ingle"]["prompt_progress"] for event in progress])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert "ingle" not in events[-1]["response"]


async def test_responses_report_now_and_then(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_answer, "PROGRESS_SECONDS", math.inf)
    body = {"model": "echo:1", "input": LONG, "max_output_tokens": 16, "stream": True}
    events = [data for _, data in await daemon.events("POST", "/v1/responses", json=body)]
    assert [event["type"] for event in events].count("response.in_progress") == 1


async def test_lm_studios_events_tell_the_progress(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "input": LONG, "max_output_tokens": 4, "stream": True}
    events = await daemon.events("POST", "/api/v1/chat", json=body)
    shares = [data["progress"] for name, data in events if name == "prompt_processing.progress"]
    assert (shares[0], shares[-1]) == (0, 1)
    assert shares == sorted(set(shares))
    assert len(shares) > 2


async def test_ollamas_answers_tell_what_was_cached(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "messages": MESSAGES, "stream": False}
    first = (await daemon.tcp.post("/api/chat", json=body)).json()
    again = (await daemon.tcp.post("/api/chat", json=body)).json()
    assert first["prompt_eval_cached_count"] == 0
    assert again["prompt_eval_cached_count"] == first["prompt_eval_count"] - 1


async def test_a_cached_prompt_is_reported_as_such(daemon: RunningDaemon) -> None:
    body = {"model": "echo:1", "messages": MESSAGES, **ASKED}
    async with daemon.tcp.stream("POST", "/v1/chat/completions", json=body) as stream:
        async for line in stream.aiter_lines():
            if "prompt_progress" in line:
                break  # a request that is given up has no further reports
    await daemon.until(lambda: daemon.leases == 0)
    await events_of(daemon, "/v1/chat/completions", messages=MESSAGES, stream=True)
    events = await events_of(daemon, "/v1/chat/completions", messages=MESSAGES, **ASKED)
    (report,) = [event["prompt_progress"] for event in events if "prompt_progress" in event]
    assert report["cache"] == report["total"] - 1
