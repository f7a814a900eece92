"""Escalation to a cloud model from a route that prefers the local one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ingle.backends.base.conversation import ChatMessage, Reasoning
from ingle.backends.base.events import (
    Delta,
    Event,
    EventSink,
    Finished,
    FinishReason,
    Started,
    TokenLogprobs,
)
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.routing.escalation import MeanSurprisal, high_value_reason
from ingle.daemon.routing.policy.policy_tables import RouteDefinition
from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.routing.conftest import Sink, SinkExits
from tests.harness.local_backend import LocalBackend

HARMLESS = "How do tides work?"
CARD = "My card is 4539 5787 6362 1486."
POLICY = """
[routes.auto]
prefer = "local"
escalate = ["uncertain", "valuable"]
tokens = 6
surprise = 0.8
valuable_words = ["think hard"]
valuable_length = 2000
"""


class HesitantBackend(LocalBackend):
    """A local model with a fixed logprob for all of its tokens."""

    logprob = -0.05
    cancelled = 0

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        sink([Started(request.id, 3)])
        try:
            for number in range(12):
                logprobs = None
                if request.logprobs is not None:
                    logprobs = [TokenLogprobs(number, self.logprob)]
                sink([Delta(request.id, 0, f"w{number} ", [number], logprobs)])
            sink([Finished(request.id, 0, FinishReason.STOP, 12)])
        except BaseException:
            type(self).cancelled += 1
            raise


class SureBackend(HesitantBackend):
    logprob = -0.05


class UnsureBackend(HesitantBackend):
    logprob = -2.5


def backend_factory(kind: type[LocalBackend]) -> Any:
    def create(spec: LoadSpec) -> LocalBackend:
        return kind(spec)

    return create


@pytest.fixture
async def daemons(run_daemon: DaemonFactory, egress: SinkExits) -> Any:
    """Starts a daemon with the given kind of local model."""

    def start(kind: type[LocalBackend]) -> Any:
        return run_daemon(egress=egress, create_backend=backend_factory(kind))

    return start


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def ask(
    daemon: RunningDaemon, text: str, *, policy: str = POLICY, **more: Any
) -> tuple[str, str]:
    """The route and the text of the response."""
    path = daemon.services.router.policy.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(policy)
    body = {"model": "auto", "messages": chat(text), **more}
    response = await daemon.unix.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    return response.headers["ingle-route"], response.text


async def test_certain_answer_stays_local(daemons: Any, sink: Sink) -> None:
    async with daemons(SureBackend) as daemon:
        for stream in (False, True):
            route, text = await ask(daemon, HARMLESS, stream=stream)
            assert route == "local; model=echo:1; rule=prefer_local"
            assert "w11" in text
            assert "logprob" not in text.replace('"logprobs":null', "")
        _, text = await ask(daemon, HARMLESS, logprobs=True)
        assert '"logprob":-0.05' in text
    assert sink.connections == 0


async def test_uncertain_answer_is_escalated(daemons: Any, sink: Sink) -> None:
    async with daemons(UnsureBackend) as daemon:
        for stream in (False, True):
            route, text = await ask(daemon, HARMLESS, stream=stream)
            assert route == "cloud; model=sink/big; rule=uncertain"
            assert "cloud" in text
            assert "w0" not in text
            assert '"model":"sink/big"' in text
        sink.status = 500
        route, text = await ask(daemon, HARMLESS)
        assert route == "local; model=echo:1; rule=fallback"
        assert "w11" in text
        # A sensitive request stays local, however uncertain the answer is.
        before = sink.connections
        route, text = await ask(daemon, CARD)
        assert route == "local; model=echo:1; rule=card=never"
        assert "w11" in text
        assert sink.connections == before


@pytest.mark.parametrize("prefer", ["privacy", "cost", "speed"])
async def test_all_local_answers_have_the_same_exceptions(
    daemons: Any, sink: Sink, prefer: str
) -> None:
    policy = POLICY.replace('"local"', f'"{prefer}"')
    async with daemons(UnsureBackend) as daemon:
        route, _ = await ask(daemon, HARMLESS, policy=policy)
        assert route == "cloud; model=sink/big; rule=uncertain"
        route, _ = await ask(daemon, "How do tides work? Think hard.", policy=policy)
        assert route == "cloud; model=sink/big; rule=valuable"


async def test_valuable_task_is_escalated(daemons: Any, sink: Sink) -> None:
    async with daemons(SureBackend) as daemon:
        route, _ = await ask(daemon, "How do tides work? Think hard.")
        assert route == "cloud; model=sink/big; rule=valuable"
        route, _ = await ask(daemon, CARD + " Think hard.")
        assert "local" in route
    assert sink.connections == 1


@pytest.mark.parametrize(
    ("text", "effort", "valuable"),
    [
        ("How do tides work?", None, False),
        ("How do tides work?", "high", True),
        ("THINK HARD about tides", None, True),
        ("x" * 7_000, None, True),
        ("Why does this fail?\n```\nx = 1\n```", None, True),
        (r"What is $$\int_0^1 x dx$$", None, True),
        ("Prove that there are infinitely many primes.", None, True),
        ("It will improve.", None, False),
    ],
)
def test_high_value_criteria(text: str, effort: str | None, valuable: bool) -> None:
    request = GenerateRequest(
        id="r",
        messages=[ChatMessage("user", text), ChatMessage("assistant", "think hard")],
        reasoning=Reasoning(effort=effort),
    )
    assert (high_value_reason(request, RouteDefinition(name="auto")) is not None) is valuable


def events(logprobs: Sequence[float]) -> list[Event]:
    return [Delta("r", 0, "x", [1], [TokenLogprobs(1, value)]) for value in logprobs]


def test_mean_surprisal() -> None:
    surprise = MeanSurprisal(4)
    surprise.take(events([-1.0, -3.0]))
    assert (surprise.mean, surprise.is_full) == (None, False)
    surprise.take(events([-2.0, -float("inf")]))
    assert surprise.is_full
    assert surprise.mean == pytest.approx(9.0)  # pyright: ignore[reportUnknownMemberType]
    ended = MeanSurprisal(100)
    ended.take([Finished("r", 0, FinishReason.STOP, 1)])
    assert (ended.is_full, ended.mean) == (True, None)
