"""Fixtures: a small random model on a simulated GPU, and what it answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from gpu.fake_driver import build_fake_driver
from gpu.random_model import llama_config
from gpu.synthetic import source
from kernel_harness.simulated_gpu import SimulatedGPU

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.cuda.state_model_runner import open_model_runner
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
# With these weights logits differ by more than int8 activations are off.
SEED = 4
PROMPT: tuple[int, ...] = (5, 25, 3, 17, 9, 20, 44, 8, 12, 7, 66, 31, 28, 12, 19, 2, 14, 33, 71, 9)


def run(runner: CudaModelRunner, streamed: list[list[int]]) -> None:
    """Append the tokens of three sequences: prompts of more than one step, greedy and sampled."""
    engine = Engine(runner)
    for index in range(3):
        params = SamplingParams(seed=4) if index % 2 else SamplingParams(temperature=0)
        prompt = list(PROMPT[: 20 - 3 * index])
        engine.add(Sequence("r", index, prompt, params, max_tokens=6, ignore_eos=True))
    while engine.has_work:
        for output in engine.step():
            streamed[output.sequence.index] += output.token_ids


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
def expected(open_runner: OpenRunner) -> list[list[int]]:
    """Return the tokens of plain torch in float32."""
    streamed: list[list[int]] = [[], [], []]
    run(open_runner("cpu"), streamed)
    return streamed
