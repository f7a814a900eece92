"""Our samplers against llama.cpp's chains: the same candidates with the same probabilities."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.sampling.dry_penalties import DryPenalties
from ingle.backends.cuda.sampling.logit_adjustments import Adjustments
from ingle.backends.cuda.sampling.mirostat import first_mu, mirostat_draw
from ingle.backends.cuda.sampling.row_sampler import RowSampler, SamplingPath
from ingle.backends.cuda.sampling.sampling_state import SamplingState
from ingle.backends.engine.batch import ScheduledChunk
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.batch_sampler import DrySamplers, SamplerChain
from ingle.backends.llama_cpp.llama_model import LlamaModel
from ingle.backends.llama_cpp.llama_tokenizer import LlamaTokenizer
from ingle.backends.llama_cpp.native_log import NativeLog

pytestmark = pytest.mark.model

OFF: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
ROOM = 512

Logits = NDArray[np.float32]


def upload(array: NDArray[Any]) -> torch.Tensor:
    return torch.tensor(array)


class Samplers:
    """Both implementations for one vocabulary."""

    def __init__(self, path: Path) -> None:
        self.log = NativeLog()
        self.model = LlamaModel(path, vocab_only=True, log=self.log)
        self.tokenizer = LlamaTokenizer(self.model)
        self.theirs = DrySamplers(self.model.vocab, window=ROOM)
        self.ours = DryPenalties(self.tokenizer, room=ROOM)

    def close(self) -> None:
        self.theirs.close()
        self.model.close()
        self.log.close()

    def llama_cpp_probabilities(
        self, params: SamplingParams, logits: Logits, prompt: list[int], generated: list[int]
    ) -> NDArray[np.float64]:
        """Return the probabilities of all tokens just before the final sampling step."""
        chain = SamplerChain(
            params,
            vocab=self.model.vocab,
            prompt=prompt,
            context=ROOM,
            dry_samplers=self.theirs,
        )
        native = chain._chain  # pyright: ignore[reportPrivateUsage]
        if params.temperature > 0:
            last = llama_cpp.llama_sampler_chain_n(native) - 1
            draw = llama_cpp.llama_sampler_chain_remove(native, last)
            assert llama_cpp.llama_sampler_name(draw) == b"dist"
            llama_cpp.llama_sampler_free(draw)
        for token in generated:
            llama_cpp.llama_sampler_accept(native, token)
        candidates = np.zeros(len(logits), [("id", np.int32), ("logit", np.float32), ("p", "f4")])
        candidates["id"], candidates["logit"] = np.arange(len(logits)), logits
        data = ctypes.cast(candidates.ctypes.data, llama_cpp.llama_token_data_p)
        array = llama_cpp.llama_token_data_array(data, len(logits), -1, False)
        llama_cpp.llama_sampler_apply(native, ctypes.pointer(array))  # pyright: ignore[reportArgumentType]
        found = np.zeros(len(logits))
        if params.temperature <= 0:
            found[array.data[array.selected].id] = 1
        else:
            kept = [(array.data[i].id, array.data[i].logit) for i in range(array.size)]
            ids, values = (np.array(column) for column in zip(*kept, strict=True))
            weights = np.exp(values.astype(np.float64) - values.max())
            found[ids] = weights / weights.sum()
        chain.close()
        return found

    def our_probabilities(
        self, params: SamplingParams, logits: Logits, prompt: list[int], generated: list[int]
    ) -> NDArray[np.float64]:
        sequence = Sequence("r", 0, list(prompt), params)
        sequence.token_ids += generated
        state = SamplingState(sequence)
        rows = upload(logits[None].copy())
        Adjustments([ScheduledChunk(sequence, 1, True)], [state], self.ours).apply(rows)
        found = np.zeros(len(logits))
        if state.route is SamplingPath.GREEDY:
            found[int(rows.argmax())] = 1
            return found
        sampler = RowSampler(state.route, state.numbers[None], rows.device)
        left = sampler.reduce(rows, torch.full((1, 2), 0.5, dtype=torch.float64))
        found[left.ids[0].numpy()] = left.probabilities()[0].numpy()
        return found

    def compare(
        self,
        logits: Logits,
        *,
        prompt: list[int] | None = None,
        generated: list[int] | None = None,
        **fields: Any,
    ) -> int:
        """Check that both keep the same tokens; return how many."""
        values: dict[str, Any] = {**OFF, "seed": 1, **fields}
        params = SamplingParams(**values)
        expected = self.llama_cpp_probabilities(params, logits, prompt or [], generated or [])
        got = self.our_probabilities(params, logits, prompt or [], generated or [])
        # A token of negligible probability may be a candidate or not.
        possible = expected > 1e-30
        assert np.array_equal(got > 1e-30, possible), fields
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-9)
        return int(possible.sum())


@pytest.fixture(scope="module")
def samplers(smollm2_path: Path) -> Iterator[Samplers]:
    samplers = Samplers(smollm2_path)
    yield samplers
    samplers.close()


def random_logits(seed: int, size: int, spread: float = 3.0) -> Logits:
    return (np.random.default_rng(seed).standard_normal(size) * spread).astype(np.float32)


@pytest.mark.parametrize("size", [2, 50, 4000])
@pytest.mark.parametrize(
    ("fields", "fewer"),
    [
        ({}, False),
        ({"temperature": 0.3}, False),
        ({"top_k": 5}, True),
        ({"top_k": 2000}, True),
        ({"top_k": 10**6}, False),
        ({"top_p": 0.8}, True),
        ({"top_p": 0.05}, True),
        ({"min_p": 0.03}, True),
        ({"typical_p": 0.5}, True),
        ({"typical_p": 0.9, "top_k": 30}, True),
        ({"top_n_sigma": 1.0}, True),
        ({"top_n_sigma": 0.5, "top_k": 3000, "typical_p": 0.7}, True),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.02}, True),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.6}, False),
        ({"temperature": 1.0, "dynatemp_range": 0.7}, False),
        ({"temperature": 0.5, "dynatemp_range": 0.5, "dynatemp_exponent": 2.0, "top_k": 40}, True),
        ({"dynatemp_range": 0.5, "min_p": 0.01}, True),
        ({"dynatemp_range": 0.5, "top_n_sigma": 1.5}, True),
        ({"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}, True),
        ({"typical_p": 0.8, "top_p": 0.9, "min_p": 0.01, "xtc_probability": 1.0}, True),
    ],
)
def test_each_sampler(samplers: Samplers, fields: dict[str, Any], fewer: bool, size: int) -> None:
    for seed in range(4):
        left = samplers.compare(random_logits(seed, size), **fields)
        assert left < size or not fewer or size < 4000


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_biases_and_penalties(samplers: Samplers, temperature: float) -> None:
    random = np.random.default_rng(3)
    penalties: list[dict[str, Any]] = [
        {"logit_bias": {3: 4.0, 17: -100.0, 40: 0.5}},
        {"repeat_penalty": 1.3},
        {"repeat_penalty": 0.8, "repeat_last_n": 7},
        {"frequency_penalty": 0.4, "presence_penalty": 0.7},
        {"frequency_penalty": -0.5, "repeat_last_n": 1},
        {"repeat_penalty": 2.0, "repeat_last_n": 0},
    ]
    for fields in penalties:
        generated = random.integers(0, 60, 40).tolist()
        prompt = random.integers(0, 60, 20).tolist()
        logits = random_logits(len(fields), 60)
        samplers.compare(
            logits, prompt=prompt, generated=generated, temperature=temperature, **fields
        )


@pytest.mark.parametrize("breakers", [(), ("\n", ":", '"', "*"), ("the", "; "), ("xyzzy",)])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"dry_allowed_length": 0},
        {"dry_allowed_length": 1, "dry_base": 3.0},
        {"dry_allowed_length": 5},
        {"dry_base": 1.0},
        {"dry_penalty_last_n": 13},
        {"dry_base": 0.5},
    ],
)
def test_dry_penalty(samplers: Samplers, fields: dict[str, Any], breakers: tuple[str, ...]) -> None:
    """On texts of few words, which repeat in every possible way."""
    words = samplers.tokenizer.encode(
        ' one two; three: four\n "the" cat xyz', add_special=False, parse_special=False
    )
    random = np.random.default_rng(11)
    logits = random_logits(5, 49152, 1.0)
    for length in (1, 3, 30, 120):
        for kinds in (2, 4, len(words)):
            text = [words[int(i)] for i in random.integers(0, kinds, length)]
            samplers.compare(
                logits,
                prompt=text[: length // 2],
                generated=text[length // 2 :],
                dry_multiplier=0.8,
                dry_sequence_breakers=breakers,
                top_k=50,
                **fields,
            )


def test_all_samplers_combined(samplers: Samplers) -> None:
    random = np.random.default_rng(8)
    for seed in range(20):
        generated = random.integers(0, 30, 60).tolist()
        samplers.compare(
            random_logits(seed, 49152, 2.0),
            prompt=generated[:10],
            generated=generated,
            logit_bias={3: 1.0},
            repeat_penalty=1.1,
            frequency_penalty=0.1,
            dry_multiplier=0.8,
            top_n_sigma=3.0,
            top_k=60,
            typical_p=0.95,
            top_p=0.9,
            min_p=0.02,
            xtc_probability=1.0,
            xtc_threshold=0.05,
            temperature=0.9,
            dynatemp_range=0.2,
        )


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_samples_with_the_same_frequencies(samplers: Samplers, version: int) -> None:
    """Fresh chains with different seeds, against the probabilities of our first sample."""
    fields: dict[str, Any] = {**OFF, "mirostat": version, "mirostat_tau": 4.0, "temperature": 0.9}
    params = SamplingParams(**fields)
    logits = np.full(49152, -np.inf, np.float32)  # version 1 counts the whole vocabulary
    logits[:400] = random_logits(2, 400, 2.0)
    allowed, count = np.arange(400), 3000
    theirs = np.zeros(len(logits))
    for seed in range(count):
        chain = SamplerChain(
            SamplingParams(**fields, seed=seed),
            vocab=samplers.model.vocab,
            context=ROOM,
            dry_samplers=samplers.theirs,
        )
        theirs[chain.sample_among(allowed, logits)] += 1
        chain.close()
    mu = first_mu(params, torch.device("cpu"))
    rows, grid = upload(logits), (np.arange(500) + 0.5) / 500
    ours = np.zeros(len(logits))
    for number in grid.tolist():
        sampled = mirostat_draw(rows, params, mu, torch.tensor(number, dtype=torch.float64), -1)
        ours[int(sampled.token)] += 1 / len(grid)
    assert 5 < (ours > 0).sum() < 300
    sigma = np.sqrt(ours * (1 - ours) / count)
    assert (np.abs(theirs / count - ours) <= 5 * sigma + 3e-3).all()
