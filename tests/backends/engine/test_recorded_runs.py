"""The step loop decides as recorded: order, prefill, preemption, cache hits and drafts of a load.

A deliberate change of a decision is recorded anew: delete `recorded_runs.txt` and run this file.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import astuple, replace

from ingle.backends.base.events import FinishReason
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.model_runner import ModelRunner
from ingle.backends.engine.sequence import Sequence
from ingle.backends.engine.speculation.adaptive_speculator import AdaptiveSpeculator
from ingle.backends.engine.speculation.model_drafter import DraftRunner, ModelDrafter
from ingle.backends.engine.speculation.ngram_drafter import NgramDrafter
from ingle.backends.testing.scripted_model_runner import ScriptedModelRunner
from tests.harness.recorded_lines import assert_recorded

RECORDED = Path(__file__).with_name("recorded_runs.txt")
NAMES = "abcdefghijklmnopqrstuvwxyz"
REPLY = "the cat sat on the mat and the cat sat on the hat and " * 6
CONTEXT = 192


class DraftingScript(ScriptedModelRunner):
    """A scripted draft model that is wrong or unsure now and then."""

    chance = random.Random(0)

    def collect_likeliest(self) -> list[tuple[int, float]]:
        return [
            (token if self.chance.random() < 0.9 else 7, self.chance.choice([0.3, 0.9, 0.99]))
            for (token,) in (sampled.token_ids for sampled in self.collect())
        ]


class Recording:
    """An engine on a simulated clock, and what it launched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self._patch = monkeypatch
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def take_time(self, runner: ModelRunner, fixed: float, token: float, *, shows: bool) -> None:
        """Have each step of the runner take its time, and record those of the model itself."""
        launch = runner.launch

        def launch_in_time(batch: Batch) -> None:
            launch(batch)
            self.now += fixed + token * batch.num_tokens
            if shows:
                self.lines.append(" ".join(_shown(batch)))

        self._patch.setattr(runner, "launch", launch_in_time)

    def run(self, engine: Engine, load: dict[int, list[Sequence]]) -> None:
        """Step until all sequences ended; two steps cancel the newest one."""
        everything: list[Sequence] = []
        for step in range(3000):
            for sequence in load.get(step, ()):
                sequence.arrived_at = self.now
                engine.add(sequence)
                everything.append(sequence)
            if step in (30, 45):
                newest = [s for s in everything if not s.finish_reason][-1]
                engine.finish(newest, FinishReason.CANCELLED)
            engine.share_machine(step % 50 > 40)
            if engine.has_work:
                engine.step()
            elif step > max(load):
                break
            if step % 16 == 0:
                self.lines += (str(astuple(state)) for state in _state(engine))
        assert all(sequence.finish_reason for sequence in everything)
        for sequence in everything:
            name = NAMES[int(sequence.request_id)]
            self.lines.append(
                f"{name}: {sequence.num_generated} {sequence.finish_reason} "
                f"cached {sequence.cached_tokens} accepted {sequence.accepted_tokens} of "
                f"{sequence.drafted_tokens} {sequence.first_token_at:.5f} {self.now:.5f}"
            )


def _state(engine: Engine) -> Iterator[msgspec.Struct]:
    yield engine.gauges()
    page_map = engine.page_map()
    yield from page_map.groups
    yield replace(page_map, groups=[])


def _shown(batch: Batch) -> Iterator[str]:
    """Each chunk: the sequence, its tokens unless one, and its drafts."""
    for chunk in batch.chunks:
        count = "" if chunk.count == 1 else str(chunk.count)
        drafts = f"+{len(chunk.drafts)}" if chunk.drafts else ""
        rest = "" if chunk.samples else "~"
        yield f"{NAMES[int(chunk.sequence.request_id)]}{count}{rest}{drafts}"


def load_of(seed: int, count: int, alphabet: int) -> dict[int, list[Sequence]]:
    """Arrivals by step, of sequences that share stems."""
    chance = random.Random(seed)
    stems = [[chance.randrange(1, alphabet) for _ in range(120)] for _ in range(3)]
    load: dict[int, list[Sequence]] = {}
    first: list[Sequence] = []
    for number in range(count):
        stem = chance.choice(stems)[: chance.choice([0, 20, 70, 120])]
        prompt = stem + [chance.randrange(1, alphabet) for _ in range(chance.randrange(1, 30))]
        sequence = Sequence(str(number), 0, prompt, SamplingParams(), chance.choice([1, 9, 40, 70]))
        sequence.ignore_eos = chance.random() < 0.7
        sequence.private = chance.random() < 0.2
        sequence.adapter = int(chance.random() < 0.1)
        sequence.priority = chance.choice([Priority.INTERACTIVE, Priority.BATCH])
        sequence.client = chance.choice(["", "one", "two"])
        sequence.conversation = chance.choice(["", "x", "y"])
        if first and chance.random() < 0.15:
            sequence.parent = first[-1]
            sequence.token_ids[:] = first[-1].token_ids[: first[-1].prompt_length]
            sequence.prompt_length = len(sequence.token_ids)
        first.append(sequence)
        load.setdefault(chance.randrange(0, 60), []).append(sequence)
    return load


def scripted(slots: int, *, draft: bool = False, reply: str = REPLY) -> Any:
    spec = LoadSpec(
        engine="scripted",
        path="",
        context=CONTEXT,
        slots=slots,
        batch=48,
        kv_capacity=400,
        script=f'{{"reply": "{reply}"}}',
    )
    return (DraftingScript if draft else ScriptedModelRunner)(spec)


@pytest.fixture
def runners(
    number_runner: Callable[..., Any], stateful_number_runner: Callable[..., Any]
) -> dict[str, tuple[Any, DraftRunner | None, int]]:
    """The model, its draft model, and its number of tokens."""
    pages = {"block_size": 16, "num_blocks": 25, "context": CONTEXT, "batch": 48}
    DraftingScript.chance.seed(5)
    return {
        "cells": (scripted(4), None, 256),
        "cells with drafts": (scripted(4), scripted(3, draft=True), 256),
        "pages": (number_runner(**pages), None, 40),
        "pages ahead": (number_runner(**pages, ahead=True), number_runner(**pages), 40),
        "states": (stateful_number_runner(**pages, slots=3), number_runner(**pages), 40),
        "states ahead": (stateful_number_runner(**pages, ahead=True, snapshots=3), None, 40),
    }


def test_recorded_runs(
    runners: dict[str, tuple[Any, DraftRunner | None, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    for seed, (name, (runner, draft, alphabet)) in enumerate(runners.items()):
        recording = Recording(monkeypatch)
        recording.take_time(runner, 0.010, 0.0002, shows=True)
        if draft is not None:
            recording.take_time(draft, 0.002, 0.0001, shows=False)
        model = ModelDrafter(draft) if draft is not None else None
        ngrams = NgramDrafter(CONTEXT) if name != "pages" else None
        speculator = AdaptiveSpeculator(context=CONTEXT, ngrams=ngrams, model=model)
        recording.run(Engine(runner, speculator), load_of(seed, 20, alphabet))
        lines += [f"# {name}", *recording.lines]
    assert_recorded(RECORDED, lines)
