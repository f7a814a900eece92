"""Overlap scheduling on the CUDA engine does not change output, usage or the KV cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary

from ingle.backends.base.events import FinishReason, TokenLogprobs
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.operations import Operations

LoadModel = Callable[..., CudaModelRunner]

KINDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.9},
    {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"temperature": 1.1, "top_k": 0, "top_p": 0.9, "logit_bias": {0: 4.0}},
    {"xtc_probability": 0.4, "dynatemp_range": 0.3},
    {"temperature": 0.0, "repeat_penalty": 1.3},
    {"repeat_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.1},
    {"temperature": 1.2, "frequency_penalty": 0.7, "repeat_last_n": 3},
]


def prompt(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(2, 90, length).tolist()


class RecordingEngine:
    """An engine that records logprobs and how many steps overlapped."""

    def __init__(self, runner: CudaModelRunner, *, ahead: bool) -> None:
        runner.can_run_ahead = ahead
        self.engine = Engine(runner)
        self.logprobs: dict[Sequence, list[TokenLogprobs]] = {}
        self.flown = 0

    def run(self, sequences: list[Sequence], *, cancel: dict[int, int]) -> None:
        """Run all to completion; those in `cancel` are cancelled after that many tokens."""
        for sequence in sequences:
            self.engine.add(sequence)
        while self.engine.has_work:
            for output in self.engine.step():
                logprobs = self.logprobs.setdefault(output.sequence, [])
                logprobs += output.logprobs or ()
                number = sequences.index(output.sequence)
                if output.sequence.num_generated >= cancel.get(number, 999):
                    self.engine.finish(output.sequence, FinishReason.CANCELLED)
            self.flown += any(sequence.num_in_flight > 0 for sequence in sequences)
            for sequence in sequences:
                assert 0 <= sequence.num_awaited <= 1
                assert sequence.num_awaited <= sequence.num_in_flight <= 512


def ask(count: int, kinds: list[dict[str, Any]], *, shared: int = 0) -> list[Sequence]:
    return [
        Sequence(
            "r",
            index,
            prompt(77, shared) + prompt(index, 20 + 13 * index),
            SamplingParams(seed=3, **kinds[index % len(kinds)]),
            max_tokens=20 + index,
            ignore_eos=index % 2 == 0,
            logprobs=index % 3,
        )
        for index in range(count)
    ]


def with_kernels(config: pytest.Config) -> ComputeBackend:
    """Return plain torch with the sampling kernels."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    assert config.cache is not None
    library = CPUKernelLibrary(config.cache.mkdir("kernels"))
    return ComputeBackend(Operations(torch.float32), library=library)


def outcome(sequence: Sequence) -> tuple[Any, ...]:
    return sequence.token_ids, sequence.finish_reason, sequence.cached_tokens


def same_logprobs(some: list[TokenLogprobs], others: list[TokenLogprobs]) -> bool:
    """Compare up to rounding, which depends on the batch."""
    return [one.token_id for one in some] == [one.token_id for one in others] and all(
        one.logprob == pytest.approx(other.logprob, abs=1e-4)
        and [token for token, _ in one.top] == [token for token, _ in other.top]
        for one, other in zip(some, others, strict=True)
    )


@pytest.mark.parametrize("way", ["greedy", "sampled", "kernels"])
def test_overlap_scheduling_does_not_change_output_usage_or_cache(
    load_model: LoadModel, tiny_path: Path, pytestconfig: pytest.Config, way: str
) -> None:
    kinds = KINDS[:1] if way == "greedy" else KINDS
    found: list[tuple[Any, Any]] = []
    scores: list[list[list[TokenLogprobs]]] = []
    for ahead in (False, True):
        backend = with_kernels(pytestconfig) if way == "kernels" else None
        runner = load_model(tiny_path, backend, kv_capacity=4096)
        answers = RecordingEngine(runner, ahead=ahead)
        first, second = ask(10, kinds), ask(10, kinds, shared=40)
        answers.run(first, cancel={3: 7, 4: 1})
        answers.run(second, cancel={0: 12})
        greedy = SamplingParams(temperature=0)
        turn = [Sequence("t", 0, list(s.token_ids), greedy, 1) for s in (*first, *second)]
        answers.run(turn, cancel={})
        assert (answers.flown > 20) is ahead
        assert sum(sequence.cached_tokens > 32 for sequence in turn) >= 15
        gauges = answers.engine.gauges()
        assert gauges.kv_used == 0
        totals = gauges.completion_tokens_total, gauges.prompt_tokens_total, gauges.kv_kept
        found.append(([outcome(sequence) for sequence in (*first, *second, *turn)], totals))
        scores.append([answers.logprobs[sequence] for sequence in (*first, *second)])
    assert found[0] == found[1]
    assert all(same_logprobs(some, others) for some, others in zip(*scores, strict=True))
