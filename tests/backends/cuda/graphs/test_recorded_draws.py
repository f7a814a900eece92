"""Recorded steps that find their inputs and draw their tokens by themselves change no text."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from numpy.typing import NDArray

from ingle.backends.base.errors import EngineFault
from ingle.backends.base.events import FinishReason
from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.graphs.step_inputs import StepInputs
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.operations import Operations

from .test_step_graphs import Recorder, RepeatingSpeculator

LoadModel = Callable[..., CudaModelRunner]

PLAIN: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9},
    {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"temperature": 1.1, "top_k": 0, "top_p": 0.8},
    {"temperature": 0.7, "top_k": 5, "min_p": 0.1},
]
SLOW: list[dict[str, Any]] = [
    {"temperature": 0.0, "repeat_penalty": 1.3},
    {"temperature": 1.2, "frequency_penalty": 0.7, "repeat_last_n": 3},
    {"temperature": 1.1, "logit_bias": {3: 4.0}},
    {"xtc_probability": 0.4, "dynatemp_range": 0.3},
    {"mirostat": 2, "temperature": 0.8},
]


class OddTokens:
    """A `Constraint` that allows half of the vocabulary."""

    complete = False
    error: str | None = None

    def allows(self, token_id: int) -> bool:
        return token_id % 2 == 1

    def mask(self) -> NDArray[np.bool_]:
        return np.arange(96) % 2 == 1

    def consume(self, token_id: int) -> None:
        assert self.allows(token_id)

    def fork(self) -> OddTokens:
        return self


class Meter:
    """Counts steps whose inputs the host filled in, and those that it left to the device."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.followed = self.tables = 0
        follow, send = StepInputs.follow, StepInputs._send_tables  # pyright: ignore[reportPrivateUsage]

        def counted(inputs: StepInputs, batch: Batch) -> bool:
            found = follow(inputs, batch)
            self.followed += found
            return found

        def sent(inputs: StepInputs, batch: Batch) -> None:
            self.tables += 1
            send(inputs, batch)

        patch.setattr(StepInputs, "follow", counted)
        patch.setattr(StepInputs, "_send_tables", sent)


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    return Meter(monkeypatch)


@pytest.fixture(scope="module")
def library(pytestconfig: pytest.Config) -> CPUKernelLibrary:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    assert pytestconfig.cache is not None
    return CPUKernelLibrary(pytestconfig.cache.mkdir("kernels"))


def backend(library: CPUKernelLibrary, record: Recorder | None) -> ComputeBackend:
    return ComputeBackend(Operations(torch.float32), record, library)


def ask(count: int, kinds: list[dict[str, Any]], *, tokens: int = 60) -> list[Sequence]:
    """Return sequences of these kinds in turn; every third prompt is that of its neighbour."""
    made = [
        Sequence(
            "r",
            index,
            [2 + index - index % 3 // 2, 7, 8, 9] * (3 + index % 4),
            SamplingParams(seed=3, **kinds[index % len(kinds)]),
            max_tokens=tokens - 5 * (index % 4),
            ignore_eos=index % 2 == 0,
        )
        for index in range(count)
    ]
    for index, sequence in enumerate(made):
        sequence.priority = Priority.BATCH if index % 2 else Priority.INTERACTIVE
    return made


def texts(sequences: list[Sequence]) -> list[list[int]]:
    return [sequence.token_ids[sequence.prompt_length :] for sequence in sequences]


def run(engine: Engine, sequences: list[Sequence], *, late: int = 0, cancel: int = -1) -> None:
    """Run all, the last `late` of them added one after the other; cancel one midway."""
    choose = random.Random(7)
    waiting = list(sequences)
    for _ in range(len(sequences) - late):
        engine.add(waiting.pop(0))
    while engine.has_work or waiting:
        if waiting and (not engine.has_work or choose.random() < 0.1):
            engine.add(waiting.pop(0))
        engine.step()
        if cancel >= 0 and sequences[cancel].num_generated > 20:
            engine.finish(sequences[cancel], FinishReason.CANCELLED)


@pytest.mark.parametrize(
    ("kinds", "ahead"),
    [
        ([*PLAIN, *SLOW], True),
        pytest.param(PLAIN, True, marks=pytest.mark.slow),
        pytest.param(PLAIN[:1], True, marks=pytest.mark.slow),
        pytest.param([*PLAIN, *SLOW], False, marks=pytest.mark.slow),
    ],
    ids=["mixed", "plain", "greedy", "in turn"],
)
def test_text_is_that_of_steps_without_recordings(
    load_model: LoadModel,
    tiny_path: Path,
    library: CPUKernelLibrary,
    meter: Meter,
    kinds: list[dict[str, Any]],
    ahead: bool,
) -> None:
    found: list[list[list[int]]] = []
    followed: list[int] = []
    for record, records_draws in ((None, True), (Recorder(), True), (Recorder(), False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CudaModelRunner, "records_draws", records_draws)
            runner = load_model(tiny_path, backend(library, record), kv_capacity=4096)
        runner.can_run_ahead = ahead
        before = meter.followed
        answers: list[list[int]] = []
        for count, late in ((1, 0), (11, 6)):
            sequences = ask(count, kinds)
            run(Engine(runner), sequences, late=late)
            answers += texts(sequences)
        found.append(answers)
        followed.append(meter.followed - before)
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert followed[0] == followed[2] == 0
    assert (followed[1] > 50) is ahead
    assert (meter.tables > 0) is ahead


def test_sequences_that_need_the_host_come_and_go(
    load_model: LoadModel, tiny_path: Path, library: CPUKernelLibrary, meter: Meter
) -> None:
    """Grammars and log-probabilities beside plain sequences, which go on by themselves after."""
    found: list[list[list[int]]] = []
    for record in (None, Recorder()):
        runner = load_model(tiny_path, backend(library, record), kv_capacity=4096)
        runner.can_run_ahead = True
        sequences = ask(9, PLAIN)
        sequences[2].constraint = sequences[6].constraint = OddTokens()
        sequences[4].logprobs = sequences[7].logprobs = 2
        for short in (2, 4, 6, 7):
            sequences[short].max_tokens = 12
        run(Engine(runner), sequences, late=3, cancel=3)
        found.append(texts(sequences))
    assert found[1] == found[0]
    assert all(token % 2 for place in (2, 6) for token in found[1][place])
    assert meter.followed > 20


@pytest.mark.slow
def test_preempted_sequences_end_with_the_same_text(
    load_model: LoadModel, tiny_path: Path, library: CPUKernelLibrary, meter: Meter
) -> None:
    alone = load_model(tiny_path, backend(library, None))
    expected = ask(6, PLAIN, tokens=120)
    for sequence in expected:
        run(Engine(alone), [sequence])
    runner = load_model(
        tiny_path, backend(library, Recorder()), context=256, kv_capacity=320, slots=6
    )
    runner.can_run_ahead = True
    engine, crowd = Engine(runner), ask(6, PLAIN, tokens=120)
    run(engine, crowd)
    assert texts(crowd) == texts(expected)
    assert engine.gauges().preemptions_total > 0
    assert meter.followed > 20


def test_drafts_between_recorded_draws_change_no_text(
    load_model: LoadModel, tiny_path: Path, library: CPUKernelLibrary, meter: Meter
) -> None:
    """Drafts now and then: the steps between them are recorded ones that draw."""

    class Sometimes(RepeatingSpeculator):
        steps = 0

        def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
            self.steps += 1
            return super().propose(decoding, room) if self.steps % 5 == 1 else {}

        def waits(self, decoding: list[Sequence], room: int) -> bool:
            self.steps += 1
            return self.steps % 5 == 0

    alone, runner = (
        load_model(tiny_path, backend(library, record)) for record in (None, Recorder())
    )
    runner.can_run_ahead = True
    expected, found = ask(4, PLAIN), ask(4, PLAIN)
    run(Engine(alone), expected)
    engine = Engine(runner, Sometimes())
    run(engine, found)
    assert texts(found) == texts(expected)
    assert engine.gauges().drafted_tokens_total > 20
    assert meter.followed > 20


def test_steps_without_a_recording_draw_the_same(
    load_model: LoadModel, tiny_path: Path, library: CPUKernelLibrary, meter: Meter
) -> None:
    """Recordings fail from the second on, so that kernels are launched one by one."""

    class Failing(Recorder):
        def __call__(self, work: Callable[[], torch.Tensor]) -> Any:
            if self.recorded:
                work()
                raise torch.OutOfMemoryError
            return super().__call__(work)

    alone, runner = (
        load_model(tiny_path, backend(library, record)) for record in (None, Failing())
    )
    runner.can_run_ahead = True
    expected, found = ask(5, PLAIN), ask(5, PLAIN)
    run(Engine(alone), expected, late=2)
    run(Engine(runner), found, late=2)
    assert texts(found) == texts(expected)
    assert meter.followed > 20


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("sample_rows", "draws wrong tokens"), ("continue_step", "is not continued by the next one")],
)
def test_wrong_kernel_is_found_while_loading(
    load_model: LoadModel,
    tiny_path: Path,
    library: CPUKernelLibrary,
    monkeypatch: pytest.MonkeyPatch,
    kernel: str,
    message: str,
) -> None:
    """Once the model is tried out, the kernel does nothing from its second launch on."""
    launch, launches = library.launch, 0

    def broken(source: str, name: str, *arguments: Any, **options: Any) -> None:
        nonlocal launches
        launches += name == kernel
        if name != kernel or launches < 3:
            launch(source, name, *arguments, **options)

    monkeypatch.setattr(library, "launch", broken)
    with pytest.raises(EngineFault, match=message):
        load_model(tiny_path, backend(library, Recorder()))
