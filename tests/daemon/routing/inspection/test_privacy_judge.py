"""Privacy judge: a local model's opinion can only keep a request local, and never blocks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ingle.backends.base.errors import WorkerDied
from ingle.backends.base.events import Delta, Event
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import GrammarKind
from ingle.daemon.routing.inspection.privacy_judge import Generate, is_judged_private, question
from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.routing.conftest import SinkExits


def generate_pieces(*pieces: str) -> Generate:
    async def generate(request: GenerateRequest) -> AsyncGenerator[Event, None]:
        for piece in pieces:
            yield Delta(request.id, 0, piece, [1])

    return generate


@pytest.mark.parametrize(
    ("pieces", "private"),
    [
        (("priv", "ate"), True),
        ((" Private\n",), True),
        (("public",), False),
        ((), False),
        (("none",), False),
        (("perhaps",), False),
    ],
)
async def test_answer_is_parsed_as_an_opinion(pieces: tuple[str, ...], private: bool) -> None:
    assert await is_judged_private(generate_pieces(*pieces), "some text") is private


async def test_strict_opinion_must_be_public() -> None:
    for answer, private in (("public", False), ("private", True), ("perhaps", True), ("", True)):
        assert await is_judged_private(generate_pieces(answer), "text", strict=True) is private


async def test_slow_model_is_cancelled_and_has_no_opinion() -> None:
    stopped = asyncio.Event()

    async def generate(request: GenerateRequest) -> AsyncGenerator[Event, None]:
        try:
            await asyncio.Event().wait()
            yield Delta(request.id, 0, "private", [1])
        finally:
            stopped.set()

    assert not await is_judged_private(generate, "text", seconds=0.05)
    assert stopped.is_set()


async def test_worker_death_is_no_opinion() -> None:
    async def generate(request: GenerateRequest) -> AsyncGenerator[Event, None]:
        yield Delta(request.id, 0, "private", [1])
        raise WorkerDied("gone")

    assert not await is_judged_private(generate, "text")


def test_judge_request_is_private_greedy_and_short() -> None:
    request = question("begin " + "x" * 100_000 + " end")
    assert request.private
    assert request.sampling.temperature == 0
    assert request.max_tokens == 8
    assert request.grammar is not None
    assert request.grammar.kind is GrammarKind.REGEX
    assert request.messages is not None
    question_text = request.messages[-1].content
    assert len(question_text) < 7000
    assert "begin" in question_text
    assert question_text.endswith(" end\nAnswer:")


class TestInTheRouter:
    """A route with `judge = true`, with a request that no detector keeps local."""

    HARMLESS = "Why is the sky blue?"

    @pytest.mark.parametrize(
        ("opinion", "expected", "question_count"),
        [("private", "local", 1), ("public", "cloud", 1), ("nonsense", "cloud", 1)],
    )
    async def test_opinion_can_only_keep_a_request_local(
        self,
        run_daemon: DaemonFactory,
        egress: SinkExits,
        opinion: str,
        expected: str,
        question_count: int,
    ) -> None:
        questions: list[GenerateRequest] = []

        async def answer(request: GenerateRequest) -> AsyncGenerator[Event, None]:
            questions.append(request)
            yield Delta(request.id, 0, opinion, [])

        async with run_daemon(egress=egress) as daemon:
            daemon.services.router.find_judge = lambda judge: answer
            policy = daemon.services.config.paths.config / "policy.toml"
            assert await self.verdict(daemon) == "cloud"  # the judge is disabled by default
            assert questions == []
            policy.parent.mkdir(parents=True, exist_ok=True)
            policy.write_text("[routes.auto]\njudge = true\n")
            assert await self.verdict(daemon) == expected
            assert len(questions) == question_count
            assert self.HARMLESS in str(questions[0].messages)
            assert questions[0].private

    @pytest.mark.parametrize(
        ("opinion", "expected"), [("private", "local"), ("public", "cloud"), ("nonsense", "local")]
    )
    async def test_named_model_is_loaded_and_must_call_it_public(
        self, run_daemon: DaemonFactory, egress: SinkExits, opinion: str, expected: str
    ) -> None:
        async with run_daemon(egress=egress, script={"reply": opinion}) as daemon:
            policy = daemon.services.config.paths.config / "policy.toml"
            policy.parent.mkdir(parents=True, exist_ok=True)
            policy.write_text('[routes.auto]\njudge = "echo:1"\n')
            assert not daemon.services.manager.loaded()
            assert await self.verdict(daemon) == expected
            assert daemon.services.manager.loaded()

    async def test_named_model_that_is_missing_keeps_requests_local(
        self, run_daemon: DaemonFactory, egress: SinkExits
    ) -> None:
        async with run_daemon(egress=egress) as daemon:
            policy = daemon.services.config.paths.config / "policy.toml"
            policy.parent.mkdir(parents=True, exist_ok=True)
            policy.write_text('[routes.auto]\njudge = "missing:1"\n')
            assert await self.verdict(daemon) == "local"

    async def verdict(self, daemon: RunningDaemon) -> str:
        body = {"model": "auto", "messages": [{"role": "user", "content": self.HARMLESS}]}
        response = await daemon.unix.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        return response.headers["ingle-route"].partition(";")[0]
