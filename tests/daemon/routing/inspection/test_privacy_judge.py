"""The local model's opinion can only keep a text here, and nothing waits for it."""

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


def saying(*pieces: str) -> Generate:
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
async def test_only_the_answer_private_counts(pieces: tuple[str, ...], private: bool) -> None:
    assert await is_judged_private(saying(*pieces), "some text") is private


async def test_a_slow_model_has_no_opinion_and_is_stopped() -> None:
    stopped = asyncio.Event()

    async def generate(request: GenerateRequest) -> AsyncGenerator[Event, None]:
        try:
            await asyncio.Event().wait()
            yield Delta(request.id, 0, "private", [1])
        finally:
            stopped.set()

    assert not await is_judged_private(generate, "text", seconds=0.05)
    assert stopped.is_set()


async def test_a_model_that_dies_has_no_opinion() -> None:
    async def generate(request: GenerateRequest) -> AsyncGenerator[Event, None]:
        yield Delta(request.id, 0, "private", [1])
        raise WorkerDied("gone")

    assert not await is_judged_private(generate, "text")


def test_the_question_is_private_greedy_and_short() -> None:
    request = question("begin " + "x" * 100_000 + " end")
    assert request.private
    assert request.sampling.temperature == 0
    assert request.max_tokens == 8
    assert request.grammar is not None
    assert request.grammar.kind is GrammarKind.REGEX
    assert request.messages is not None
    asked = request.messages[-1].content
    assert len(asked) < 7000
    assert "begin" in asked
    assert asked.endswith(" end\nAnswer:")


class TestInTheRouter:
    """A route with `judge = true`, asked for what nothing else keeps here."""

    HARMLESS = "Why is the sky blue?"

    @pytest.mark.parametrize(
        ("opinion", "wanted", "asked"),
        [("private", "local", 1), ("public", "cloud", 1), ("nonsense", "cloud", 1)],
    )
    async def test_an_opinion_only_keeps(
        self, run_daemon: DaemonFactory, egress: SinkExits, opinion: str, wanted: str, asked: int
    ) -> None:
        questions: list[GenerateRequest] = []

        async def answer(request: GenerateRequest) -> AsyncGenerator[Event, None]:
            questions.append(request)
            yield Delta(request.id, 0, opinion, [])

        async with run_daemon(egress=egress) as daemon:
            daemon.services.router.find_judge = lambda: answer
            policy = daemon.services.config.paths.config / "policy.toml"
            assert await self.verdict(daemon) == "cloud"  # nobody is asked by default
            assert questions == []
            policy.parent.mkdir(parents=True, exist_ok=True)
            policy.write_text("[routes.auto]\njudge = true\n")
            assert await self.verdict(daemon) == wanted
            assert len(questions) == asked
            assert self.HARMLESS in str(questions[0].messages)
            assert questions[0].private

    async def verdict(self, daemon: RunningDaemon) -> str:
        body = {"model": "auto", "messages": [{"role": "user", "content": self.HARMLESS}]}
        response = await daemon.unix.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        return response.headers["ingle-route"].partition(";")[0]
