"""Pictures on the simulated GPU: the tokens of plain torch, with kernels and recorded steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from kernel_harness.simulated_engine import Q4_0_SOURCES, simulated_engine
from kernel_harness.simulated_gpu import SimulatedGPU

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.pictures.picture_model_runner import PictureModelRunner
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.models.kv_type import KVType
from tests.harness.seeing_models import picture
from tests.harness.small_projector import write_small_projector

from .conftest import PROMPT, SEED, TINY, source


def answers(device: str, projector: Path, cache: Path, *, whole: bool) -> list[list[int]]:
    """Return the tokens that follow two prompts with a picture and one without.

    Unless `whole`, tokens of a picture see only those before them.
    """
    spec = LoadSpec(
        engine="cuda",
        path="random",
        projector_path=str(projector),
        context=64,
        slots=3,
        batch=32,
        threads=1,
        device="cpu" if device == "cpu" else "cuda",
        kv_type=KVType.F32 if device == "cpu" else KVType.BF16,
        kernel_cache=str(cache / "simulated"),
    )
    weights = source(TINY.config, torch.device(device), TINY.kind, SEED)
    runner = PictureModelRunner(spec, source=weights)
    assert runner.pictures is not None
    engine, together = Engine(runner), list[Sequence]()
    for index in range(3):
        prompt, encoded = list(PROMPT), runner.pictures.encode(picture(index, 64, 64))
        spans = [replace(span, whole=whole) for span in encoded.spans if index]
        if index:
            prompt = encoded.token_ids + prompt[index:]
        together.append(
            Sequence(
                "r",
                index,
                prompt,
                SamplingParams(temperature=0),
                max_tokens=5,
                ignore_eos=True,
                speculates=False,
                pictures=tuple(spans),
            )
        )
        engine.add(together[-1])
    while engine.has_work:
        engine.step()
    return [sequence.token_ids[sequence.prompt_length :] for sequence in together]


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
def test_pictures_on_a_gpu(gpu: SimulatedGPU, cache: Path, tmp_path: Path, whole: bool) -> None:
    projector = write_small_projector(tmp_path / "mmproj.gguf", "gemma3", width=128)
    expected = answers("cpu", projector, cache, whole=whole)
    with simulated_engine(gpu, cache / "cubins", Q4_0_SOURCES):
        assert answers("cuda", projector, cache, whole=whole) == expected
