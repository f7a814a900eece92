"""Where a request is answered if the policy allows both sides, with a real server elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from ingle.backends.base.events import Delta, EventSink, Finished, FinishReason, Started
from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import GenerateRequest
from ingle.daemon.main import main
from ingle.daemon.routing.policy.answer_choice import (
    AnswerEstimate,
    AnswerEstimates,
    prefers_remote,
)
from ingle.daemon.routing.policy.policy_tables import Prefer
from tests.daemon.conftest import DaemonFactory, RunningDaemon
from tests.daemon.routing.conftest import Sink
from tests.harness.local_backend import LocalBackend

HARMLESS = "How do tides work?"
CARD = "My card is 4539 5787 6362 1486."


class PacedBackend(LocalBackend):
    """A local model with fixed speeds, whose answers count 100 tokens."""

    answered = 0
    further: ClassVar[dict[str, int]] = {}
    """Further gauges."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "gauges":  # what the scripted engine measures depends on the machine
            value = Gauges(
                prompt_rate=100.0,
                decode_rate=10.0,
                completion_tokens_total=self.answered * 100,
                **self.further,
            )
        super().__setattr__(name, value)

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        sink([Started(request.id, 3), Delta(request.id, 0, "Hello from here.", [1])])
        self.answered += 1
        self.gauges = Gauges()
        sink([Finished(request.id, 0, FinishReason.STOP, 100)])


def configure(daemon: RunningDaemon, sink: Sink, prefer: str, *, price: str = "10.0") -> None:
    """Set up the sink as a provider with this price of a million tokens, and the preference."""
    folder = daemon.services.config.paths.config
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "providers.toml").write_text(
        f'[sink]\nkind = "openai"\nbase_url = "http://127.0.0.1:{sink.port}/v1"\n'
        'models = ["big"]\nown = true\nretries = 0\n'
    )
    (folder / "prices.toml").write_text(
        'dated = 2026-11-01\ncurrency = "EUR"\n["127.0.0.1"]\n'
        f"big = {{ input = {price}, output = {price} }}\n"
    )
    (folder / "policy.toml").write_text(f'[routes.auto]\nprefer = "{prefer}"\n')


async def ask(daemon: RunningDaemon, text: str, **more: Any) -> str:
    """Return the route in the response's header."""
    messages = [{"role": "user", "content": text}]
    response = await daemon.unix.post(
        "/v1/chat/completions", json={"model": "auto", "messages": messages, **more}
    )
    assert response.status_code == 200, response.text
    return response.headers["ingle-route"]


async def explain(daemon: RunningDaemon, text: str) -> dict[str, Any]:
    return (await daemon.unix.post("/ingle/v1/routing/explain", json={"text": text})).json()


async def test_cheaper_side_answers_and_the_comparison_is_shown(
    run_daemon: DaemonFactory, sink: Sink
) -> None:
    async with run_daemon(create_backend=PacedBackend) as daemon:
        configure(daemon, sink, "cost")
        await daemon.services.manager.load("echo:1")
        assert await ask(daemon, HARMLESS) == "local; model=echo:1; rule=prefer_cost"
        explained = await explain(daemon, HARMLESS)
        assert (explained["verdict"], explained["goes_to"]) == ("cloud", "local")
        assert explained["reason"] == (
            "Nothing sensitive was found. It may leave, but this route prefers this machine. "
            "Local: first token in 0.0 s, last in 26 s, 0 ct; "
            "sink/big: first token in 1.5 s, last in 5.8 s (assumed), 0.26 ct; prefer = cost."
        )
        assert sink.connections == 0
        configure(daemon, sink, "cost", price="0.0")  # equal costs: the faster side
        assert (await ask(daemon, HARMLESS)).startswith("cloud; model=sink/big")


async def test_local_time_has_what_the_scheduler_knows(
    run_daemon: DaemonFactory, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_daemon(create_backend=PacedBackend, slots=2) as daemon:
        configure(daemon, sink, "speed")
        text = "How do tides work? " * 200  # 950 tokens
        words = "Local: first token in {}, last in {}, 0 ct; sink/big"

        async def expect(first: str, last: str, **further: int) -> None:
            monkeypatch.setattr(PacedBackend, "further", further)
            await daemon.services.manager.unload()
            await daemon.services.manager.load("echo:1")
            assert words.format(first, last) in (await explain(daemon, text))["reason"]

        await expect("9.5 s", "35 s")
        await expect("2.4 s", "28 s", prompt_tokens_total=100, cached_tokens_total=300)
        await expect("27 s", "53 s", running=2)  # half of an answer until a slot is free
        await expect("62 s", "88 s", running=2, waiting=2)
        monkeypatch.setattr(PacedBackend, "further", {})
        await explain(daemon, text)
        await daemon.services.manager.unload()
        assert words.format("12 s", "37 s") in (await explain(daemon, text))["reason"]


async def test_electricity_counts_for_local_answers(run_daemon: DaemonFactory, sink: Sink) -> None:
    settings = {"electricity_price": 0.5, "watts": 3000.0}
    async with run_daemon(create_backend=PacedBackend, **settings) as daemon:
        configure(daemon, sink, "cost", price="10.0")
        await daemon.services.manager.load("echo:1")
        # 25.6 s with 3 kW are 0.021 kWh, about 1.1 ct; 260 tokens there are 0.26 ct.
        assert (await ask(daemon, HARMLESS)).startswith("cloud; model=sink/big")
        configure(daemon, sink, "cost", price="100.0")
        assert (await ask(daemon, HARMLESS)).startswith("local")
        daemon.services.egress.flush()
        (entry,) = daemon.services.egress.ledger.entries()
        assert entry.choice.startswith("Local: first token in ")
        assert entry.choice.endswith(" ct; prefer = cost.")
        assert entry.first_seconds is not None


async def test_faster_side_answers_by_what_the_ledger_measured(
    run_daemon: DaemonFactory, sink: Sink
) -> None:
    async with run_daemon(create_backend=PacedBackend) as daemon:
        configure(daemon, sink, "speed")
        # A local model without measured speeds answers, and so they are measured.
        assert await ask(daemon, HARMLESS) == "local; model=echo:1; rule=prefer_speed"
        assert (await ask(daemon, HARMLESS)).startswith("cloud; model=sink/big")
        daemon.services.egress.flush()
        measured = await explain(daemon, HARMLESS)
        assert measured["reason"].endswith("; prefer = speed.")
        assert "(assumed)" not in measured["reason"]  # 3 tokens here in 0.3 s, there at once
        assert measured["goes_to"] == "sink/big"
        assert await ask(daemon, CARD) == "local; model=echo:1; rule=card=never"
        assert sink.connections == 1


@pytest.mark.parametrize(
    ("prefer", "goes_to"),
    [
        ("privacy", "local"),
        ("local", "local"),
        ("quality", "sink/big"),
        ("cloud", "sink/big"),
    ],
)
async def test_preferences_that_weigh_nothing(
    run_daemon: DaemonFactory, sink: Sink, prefer: str, goes_to: str
) -> None:
    async with run_daemon(create_backend=PacedBackend) as daemon:
        configure(daemon, sink, prefer)
        explained = await explain(daemon, HARMLESS)
        assert explained["goes_to"] == goes_to
        assert "prefer =" not in explained["reason"]


async def test_costs_of_both_sides_are_reported(
    run_daemon: DaemonFactory, sink: Sink, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"electricity_price": 0.5, "watts": 3000.0}
    async with run_daemon(create_backend=PacedBackend, **settings) as daemon:
        configure(daemon, sink, "quality")
        await ask(daemon, HARMLESS)
        await ask(daemon, CARD)
        daemon.services.egress.flush()
        daemon.services.energy.flush()
        costs = (await daemon.unix.get("/ingle/v1/status")).json()["costs"]
        local, remote = costs
        assert (local["name"], local["remote"], local["tokens"]) == ("echo:1", False, 100)
        assert local["per_million"] > 0
        totals = (await daemon.unix.get("/ingle/v1/ledger/totals")).json()
        assert totals["local"] == [local]
        assert totals["per_million"] == totals["providers"][0]["per_million"] == 10.0
        assert remote == {
            "name": "sink/big",
            "remote": True,
            "tokens": 8,
            "cost": 0.00008,
            "per_million": 10.0,
            "currency": "EUR",
        }
        metrics = (await daemon.unix.get("/metrics")).text
        assert await asyncio.to_thread(main, ["ps"]) == 0
        shown = capsys.readouterr().out
        assert "sink/big: 10 EUR a million tokens, by its latest answers\n" in shown
        here = f"echo:1: {local['per_million']:.4g} EUR a million tokens, by its answers since the"
        assert here in shown
        assert await asyncio.to_thread(main, ["ledger", "totals"]) == 0
        shown = capsys.readouterr().out
        assert "8  0.0001 EUR    10.00\n" in shown
        assert here in shown
        name = "ingle_cost_per_million_tokens"
        assert f'{name}{{currency="EUR",model="sink/big",side="remote"}} 10.0' in metrics
        assert f'{name}{{currency="EUR",model="echo:1",side="local"}}' in metrics


def estimates(local: tuple[Any, Any], remote: tuple[Any, Any]) -> AnswerEstimates:
    """Each side is seconds to the last token, and cost."""
    sides = [AnswerEstimate(last=last, cost=cost) for last, cost in (local, remote)]
    return AnswerEstimates(local=sides[0], remote=sides[1])


@pytest.mark.parametrize(
    ("prefer", "local", "remote", "expected"),
    [
        ("cost", (9.0, 0.1), (1.0, 0.2), False),
        ("cost", (1.0, 0.2), (9.0, 0.1), True),
        ("cost", (9.0, 0.1), (1.0, 0.1), True),
        ("cost", (9.0, None), (1.0, 0.1), False),
        ("cost", (9.0, 0.1), (1.0, None), False),
        ("speed", (9.0, 0.1), (1.0, 0.2), True),
        ("speed", (1.0, 0.2), (9.0, 0.1), False),
        ("speed", (1.0, 0.2), (1.0, 0.1), True),
        ("speed", (1.0, 0.1), (1.0, 0.1), False),
        ("speed", (None, 0.2), (9.0, 0.1), False),
    ],
)
def test_preference(prefer: Prefer, local: Any, remote: Any, expected: bool) -> None:
    assert prefers_remote(prefer, estimates(local, remote)) is expected
