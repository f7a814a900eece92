"""Fixtures: a small random model on a simulated GPU, and what it answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from gpu.fake_driver import build_fake_driver
from gpu.random_model import llama_config
from gpu.synthetic import NumberedTokens, source
from kernel_harness.simulated_gpu import SimulatedGPU
from kernel_harness.simulated_torch import replaced

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.graphs.step_launcher import StepLauncher
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.sampling.batch_sampler import BatchSampler, PendingSamples
from ingle.backends.cuda.state_model_runner import open_model_runner
from ingle.backends.engine.batch import Batch, ScheduledChunk, sampling_rows
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.attention.attention_variant import attention_variants
from ingle.models.config.model_config import ModelConfig
from ingle.models.kv_type import KVType

OpenRunner = Callable[..., CudaModelRunner]


@dataclass(frozen=True)
class SmallModel:
    """A random model: its shape, the types of its matrices by name, and of its pages."""

    config: ModelConfig
    kind: Callable[[str], str]
    kv_type: KVType = KVType.BF16


# The smallest one with a head size that the kernels know.
TINY = SmallModel(
    llama_config(layers=1, hidden=128, heads=2, kv_heads=1, intermediate=128, vocabulary=96),
    lambda name: "Q4_0",
)
SEED = 13000
# Relative squared error of a row of logits: int8 activations and 16-bit floats cause up to 3e-5.
ROUNDING = 1e-4
PROMPT: tuple[int, ...] = (5, 25, 3, 17, 9, 20, 44, 8, 12, 7, 66, 31, 28, 12, 19, 2, 14, 33, 71, 9)


def sampling(index: int) -> SamplingParams:
    """Return how the tokens of a sequence are drawn."""
    return SamplingParams(seed=4) if index % 2 else SamplingParams(temperature=0)


@dataclass(frozen=True)
class Answers:
    """What three sequences were answered, and the logits that each token was drawn from."""

    texts: list[list[int]] = field(default_factory=lambda: [[], [], []])
    logits: list[list[torch.Tensor]] = field(default_factory=lambda: [[], [], []])


def run(runner: CudaModelRunner, found: Answers) -> None:
    """Append the answers to three prompts of more than one step, greedy and sampled ones."""
    engine = Engine(runner)
    for index in range(3):
        prompt, params = list(PROMPT[: 20 - 3 * index]), sampling(index)
        engine.add(Sequence("r", index, prompt, params, max_tokens=6, ignore_eos=True))
    with kept_logits(found.logits):
        while engine.has_work:
            for output in engine.step():
                found.texts[output.sequence.index] += output.token_ids


def answers(runner: CudaModelRunner) -> Answers:
    """Return those of `run`."""
    run(runner, found := Answers())
    return found


@contextmanager
def kept_logits(kept: list[list[torch.Tensor]]) -> Generator[None]:
    """Append the logits of each step, to those of their sequences, unnoticed by the GPU."""
    launch = StepLauncher.launch

    def launch_and_keep(
        launcher: StepLauncher, batch: Batch
    ) -> tuple[torch.Tensor, PendingSamples | None]:
        logits, samples = launch(launcher, batch)
        with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            for rows, chunk in sampling_rows(batch.sampling):
                kept[chunk.sequence.index].append(logits[rows.start].clone())
        return logits, samples

    with replaced(StepLauncher, "launch", launch_and_keep):
        yield


def assert_right(found: Answers, expected: Answers) -> None:
    """Logits differ by rounding while the texts before them are the same, and lead to the texts.

    So a text may go on differently where two tokens are closer than that.
    """
    for index, text in enumerate(found.texts):
        assert text == drawn(found.logits[index], index)
        for place, exact in enumerate(expected.logits[index]):
            if text[:place] == expected.texts[index][:place]:
                off = (found.logits[index][place] - exact).square().sum()
                assert off <= ROUNDING * exact.square().sum()


def drawn(logits: list[torch.Tensor], index: int) -> list[int]:
    """Return the tokens of a sequence that plain torch draws from its logits."""
    size, cpu = logits[0].shape[0], torch.device("cpu")
    sampler = BatchSampler(NumberedTokens(size), cpu, room=len(logits))
    sequence = Sequence("r", index, [0], sampling(index))
    for row in logits:
        pending = sampler.launch([ScheduledChunk(sequence, 1, samples=True)], row[None].clone())
        sequence.token_ids += sampler.finish(pending)[0].token_ids
    return sequence.token_ids[1:]


@pytest.fixture(scope="session")
def cache(pytestconfig: pytest.Config) -> Path:
    """Return the folder that holds folders of compiled kernels."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    assert pytestconfig.cache is not None
    return pytestconfig.cache.mkdir("kernels").parent


@pytest.fixture(scope="session")
def gpu(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> SimulatedGPU:
    """Return the simulated GPU; there is one for a process."""
    driver = build_fake_driver(tmp_path_factory.mktemp("driver"))
    return SimulatedGPU(driver, cache / "kernels", list(attention_variants()))


@pytest.fixture(scope="session")
def open_runner(cache: Path) -> OpenRunner:
    """Return a function that loads the model, on the CPU or within a simulation."""

    def open_runner(
        device: str, backend: ComputeBackend | None = None, model: SmallModel = TINY
    ) -> CudaModelRunner:
        is_plain = device == "cpu" and backend is None
        spec = LoadSpec(
            engine="cuda",
            path="random",
            context=64,
            slots=2,
            batch=16,
            threads=1,
            device="cpu" if device == "cpu" else "cuda",
            kv_type=KVType.F32 if is_plain else model.kv_type,
            kernel_cache=str(cache / "simulated"),
            may_fall_back=True,
        )
        weights = source(model.config, torch.device(device), model.kind, SEED)
        return open_model_runner(spec, backend=backend, source=weights)

    return open_runner


@pytest.fixture(scope="session")
def expected(open_runner: OpenRunner) -> Answers:
    """Return those of plain torch in float32."""
    return answers(open_runner("cpu"))
