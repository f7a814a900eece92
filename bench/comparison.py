"""Runs servers in turn, pair by pair, and draws ratios from the pairs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from completion_client import RequestFailed
from cpu_meter import CpuMeter, CpuUse, IdleGate, Usage, spent, tree_usage
from ratio import Ratio, median_ratio
from scenarios import Figure, Measured, Scenario
from server import Server

ENOUGH_QUIET = 3


class Refused(Exception):
    """A server does not support a scenario; the message names it."""


@dataclass(frozen=True)
class Run:
    """One run of one server, with the machine's other load."""

    measured: Measured
    cpu: dict[str, CpuUse]
    """By role: `server` and its children."""
    client: CpuUse
    foreign_before: float
    foreign_during: float | None
    """None if servers start and stop within the run."""

    def quiet(self, limit: float) -> bool:
        """Whether others left the processors alone."""
        during = self.foreign_during
        return (self.foreign_before if during is None else during) <= limit

    def as_json(self) -> dict[str, object]:
        """All of it, rounded."""
        tokens = max(1, self.measured.tokens)
        return {
            "figures": {name: round(value, 4) for name, value in self.measured.figures.items()},
            "tokens": self.measured.tokens,
            "prompt_tokens": self.measured.prompt_tokens,
            "cached_tokens": self.measured.cached_tokens,
            "cpu_a_token": {role: _per_token(used, tokens) for role, used in self.cpu.items()}
            | {"client": _per_token(self.client, tokens)},
            "foreign_before": round(self.foreign_before, 3),
            "foreign_during": None
            if self.foreign_during is None
            else round(self.foreign_during, 3),
        }


@dataclass
class Pairs:
    """All pairs of ingle and one peer in one scenario."""

    scenario: Scenario
    peer: str
    max_foreign: float
    pairs: list[tuple[Run, Run]] = field(default_factory=list[tuple[Run, Run]])
    refused: str = ""
    """Why there are none."""

    def quiet(self) -> list[tuple[Run, Run]]:
        """Return the pairs whose two runs were undisturbed."""
        return [pair for pair in self.pairs if all(run.quiet(self.max_foreign) for run in pair)]

    @property
    def noisy(self) -> bool:
        """Whether too few pairs were quiet, so that all count."""
        return len(self.quiet()) < min(ENOUGH_QUIET, len(self.pairs))

    def counted(self) -> list[tuple[Run, Run]]:
        """The pairs that ratios are made of."""
        return self.pairs if self.noisy else self.quiet()

    def ratio(self, figure: Figure) -> Ratio:
        """How much better ingle is: above 1 it is faster, whatever the figure counts."""
        both = [
            (ours.measured.figures[figure.name], theirs.measured.figures[figure.name])
            for ours, theirs in self.counted()
        ]
        return median_ratio(both if figure.more_is_better else [(b, a) for a, b in both])

    def as_json(self) -> dict[str, object]:
        """Ratios, and every run that they are made of."""
        return {
            "scenario": self.scenario.name,
            "streams": self.scenario.streams,
            "peer": self.peer,
            "refused": self.refused or None,
            "noisy": self.noisy,
            "ratios": {
                figure.name: {name: _rounded(value) for name, value in asdict(ratio).items()}
                for figure, ratio in ((f, self.ratio(f)) for f in self.scenario.figures)
            }
            if self.pairs
            else {},
            "pairs": [
                {"ingle": ours.as_json(), self.peer: theirs.as_json()}
                for ours, theirs in self.pairs
            ],
        }


class Comparison:
    """Takes rounds: in each, every peer runs next to ingle, now before it and now after it."""

    def __init__(self, ours: Server, peers: Sequence[Server], gate: IdleGate) -> None:
        self._ours = ours
        self._peers = peers
        self._gate = gate
        self._seed = 0

    async def warm_up(self, scenario: Scenario) -> None:
        """Once each, uncounted: pages, buffers and code paths are there afterwards."""
        if not scenario.keeps_processes:
            return  # its servers are new in every run
        self._seed += 1
        for server in (self._ours, *self._peers):
            try:
                await scenario.measure(server, self._seed)
            except RequestFailed:
                continue  # the round will report it

    async def run(self, scenario: Scenario, rounds: int) -> list[Pairs]:
        """`rounds` quiet pairs with every peer, or twice as many pairs if it stays noisy."""
        results = [Pairs(scenario, peer.name, self._gate.max_foreign) for peer in self._peers]
        for number in range(2 * rounds):
            for peer, result in zip(self._peers, results, strict=True):
                if result.refused or len(result.quiet()) >= rounds:
                    continue
                try:
                    pair = await self._pair(scenario, peer, ours_first=number % 2 == 0)
                    result.pairs.append(pair)
                except Refused as error:
                    result.refused = str(error)
        return results

    async def _pair(self, scenario: Scenario, peer: Server, *, ours_first: bool) -> tuple[Run, Run]:
        self._seed += 1
        order = (self._ours, peer) if ours_first else (peer, self._ours)
        runs = {server.name: await self._once(scenario, server) for server in order}
        return runs[self._ours.name], runs[peer.name]

    async def _once(self, scenario: Scenario, server: Server) -> Run:
        before = self._gate.wait()
        meter = CpuMeter([])
        client = _client_usage()
        used = _server_usage(server)
        try:
            measured = await scenario.measure(server, self._seed)
        except RequestFailed as error:
            raise Refused(f"{server.name}: {error}") from error
        cpu = spent(used, _server_usage(server))
        return Run(
            measured,
            cpu if scenario.keeps_processes else {},
            _client_usage() - client,
            before,
            meter.foreign_share() if scenario.keeps_processes else None,
        )


def _server_usage(server: Server) -> Usage:
    return tree_usage(server.process.pid) if server.process is not None else {}


def _client_usage() -> CpuUse:
    times = os.times()
    return CpuUse(time.process_time(), times.system)


def _per_token(used: CpuUse, tokens: int) -> dict[str, float]:
    return {
        "milliseconds": round(1000 * used.seconds / tokens, 3),
        "of_that_system": round(1000 * used.system / tokens, 3),
        "sleeps": round(used.sleeps / tokens, 3),
    }


def _rounded(value: float) -> float:
    return round(value, 4)
