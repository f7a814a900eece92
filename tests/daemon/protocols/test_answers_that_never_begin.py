"""Requests whose answer is never iterated: what they hold is released with them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import Response, StreamingResponse

from ingle.daemon.http.bodies import ClientLeft
from ingle.daemon.http.sse_writer import EventStream
from ingle.daemon.protocols.guard.guard_responses import PassedAnswer
from ingle.daemon.speech import transcriber
from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.protocols.guard.conftest import BODIES, Upstream, begin
from tests.daemon.protocols.guard.conftest import upstream as upstream

HI = [{"role": "user", "content": "Hi"}]
STREAMS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": HI, "max_tokens": 9},
    "/api/chat": {"messages": HI},
    "/api/generate": {"prompt": "Hi"},
    "/completion": {"prompt": "Hi"},
    "/api/v0/chat/completions": {"messages": HI},
    "/api/v1/chat": {"input": "Hi"},
}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Response]:
    """The answers that were to be sent; none begins, and all stay referenced."""
    answers: list[Response] = []

    async def give_up(answer: Response, *_: object) -> None:
        answers.append(answer)
        raise ClientLeft

    for kind in (EventStream, PassedAnswer, StreamingResponse):
        monkeypatch.setattr(kind, "__call__", give_up)
    return answers


async def test_no_model_stays_leased(daemon: RunningDaemon, kept: list[Response]) -> None:
    for path, fields in STREAMS.items():
        body = {"model": "echo:1", "stream": True, **fields}
        assert (await daemon.tcp.post(path, json=body)).status_code == 499, path
    assert len(kept) == len(STREAMS)
    status = (await daemon.unix.get("/ingle/v1/status")).json()
    assert [(each["running"], each["waiting"]) for each in status["models"]] in ([], [(0, 0)])
    assert (await daemon.tcp.post("/ingle/v1/unload", json={})).status_code == 200


async def test_an_audio_file_leaves_its_place(
    daemon: RunningDaemon, kept: list[Response], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcriber, "MOST_AT_ONCE", 1)
    for _ in range(2):
        answer = await daemon.tcp.post(
            "/v1/audio/transcriptions", files={"file": b"a"}, data={"stream": "true"}
        )
        assert answer.status_code == 499
    assert len(kept) == 2


async def test_a_call_of_a_guarded_program_is_closed(
    run_daemon: DaemonFactory, upstream: Upstream, kept: list[Response]
) -> None:
    async with run_daemon() as daemon:
        path, make_body = BODIES["chat"]
        target = await begin(daemon, upstream) + path
        answer = await daemon.tcp.post(target, content=make_body("Hi"), timeout=60)
        assert answer.status_code == 499
        assert len(kept) == 1
        daemon.services.egress.flush()
        (entry,) = (await daemon.unix.get("/ingle/v1/ledger")).json()["entries"]
    assert entry["outcome"] == "cancelled"
