"""The sampler on fused kernels (run on the CPU) against the sampler in plain torch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence as Items
from typing import Any

import numpy as np
import pytest
import torch
from kernel_harness.host_library import CPUKernelLibrary
from numpy.typing import NDArray

from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.sampling import fused_sampler
from ingle.backends.cuda.sampling.batch_sampler import BatchSampler
from ingle.backends.cuda.sampling.fused_sampler import FusedDraw, FusedRows
from ingle.backends.cuda.sampling.sampling_state import SamplingState
from ingle.backends.engine.batch import Sampled, ScheduledChunk
from ingle.backends.engine.sequence import Sequence
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.kernels.launch.cuda_driver import Argument, Grid
from ingle.kernels.launch.kernel_library import KernelLibrary
from ingle.kernels.token_sampling import MAX_VOCAB

OFF: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
VOCAB = ByteTokenizer.vocab_size
CPU = torch.device("cpu")
FUSED: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0, "repeat_penalty": 1.5, "dry_multiplier": 0.8},
    {"temperature": 0.7},
    {"top_k": 5, "logit_bias": {4: 3.0, 200: -100.0}},
    {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    {"top_p": 0.9, "frequency_penalty": 0.7, "presence_penalty": 0.3},
    {"min_p": 0.05, "dry_multiplier": 1.0, "dry_allowed_length": 1},
]
OTHERS: list[dict[str, Any]] = [
    {"top_k": 200, "typical_p": 0.9},
    {"top_p": 0.5, "xtc_probability": 0.5},
    {"mirostat": 2},
    {"min_p": 0.05, "top_n_sigma": 2.0, "logit_bias": {4: 3.0}},
    {"top_k": 40, "dynatemp_range": 0.5},
]


class CountingLibrary:
    """Passes launches on to a library, if any, and records the kernels' names."""

    architecture = "host"
    num_sms = 132

    def __init__(self, library: KernelLibrary | None) -> None:
        self._library = library
        self.launched: list[str] = []

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Items[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        self.launched.append(kernel)
        if self._library is not None:
            self._library.launch(
                source, kernel, grid, block, arguments, shared_bytes=shared_bytes, overlap=overlap
            )


class RandomMaskConstraint:
    """A `Constraint` that allows random tokens at each position and never completes."""

    def __init__(self, place: int = 0) -> None:
        self.place = place
        self.complete = False
        self.error: str | None = None

    def allows(self, token_id: int) -> bool:
        return bool(self.mask()[token_id])

    def mask(self) -> NDArray[np.bool_]:
        return np.random.default_rng(self.place).random(VOCAB) < 0.5

    def consume(self, token_id: int) -> None:
        assert self.allows(token_id)
        self.place += 1

    def fork(self) -> RandomMaskConstraint:
        return RandomMaskConstraint(self.place)


@pytest.fixture(scope="module")
def library(pytestconfig: pytest.Config) -> CPUKernelLibrary:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    assert pytestconfig.cache is not None
    return CPUKernelLibrary(pytestconfig.cache.mkdir("kernels"), seed=1)


@pytest.fixture
def counting(library: CPUKernelLibrary) -> CountingLibrary:
    return CountingLibrary(library)


def make_sampler(kernels: KernelLibrary | None, device: torch.device = CPU) -> BatchSampler:
    return BatchSampler(ByteTokenizer(), device, room=4096, kernels=kernels)


def start(index: int, fields: dict[str, Any]) -> Sequence:
    values: dict[str, Any] = {**OFF, "seed": 7, **fields}
    sequence = Sequence("r", index, [5, 6, 5, 6], SamplingParams(**values))
    if index % 3 == 2:
        sequence.constraint = RandomMaskConstraint()
    if index % 4 == 1:
        sequence.logprobs = index % 3
    return sequence


def sample_steps(
    sampler: BatchSampler, kinds: list[dict[str, Any]], steps: int
) -> list[list[Sampled]]:
    """Return the samples of all sequences over `steps`, with two drafts in every other step."""
    sequences = [start(index, fields) for index, fields in enumerate(kinds)]
    results: list[list[Sampled]] = []
    generator = torch.Generator().manual_seed(0)
    likely = torch.randn(VOCAB, generator=generator) * 2
    for step in range(steps):
        drafts = (int(likely.argmax()), int(likely.argsort()[-2])) if step % 2 else ()
        chunks = [ScheduledChunk(sequence, 1, True, drafts) for sequence in sequences]
        rows = sum(1 + len(chunk.drafts) for chunk in chunks)
        logits = likely + torch.randn(rows, VOCAB + 3, generator=generator)[:, :VOCAB]
        padded = torch.nn.functional.pad(logits, (0, 3), value=1e6)
        results.append(sampler.finish(sampler.launch(chunks, padded)))
        for sequence, sampled in zip(sequences, results[-1], strict=True):
            sequence.token_ids += sampled.token_ids
    return results


def same(ours: list[list[Sampled]], expected: list[list[Sampled]]) -> bool:
    for one, other in zip(ours, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            if a.token_ids != b.token_ids or (a.logprobs is None) != (b.logprobs is None):
                return False
            for x, y in zip(a.logprobs or (), b.logprobs or (), strict=True):
                assert x.logprob == pytest.approx(y.logprob, abs=1e-5)
                assert x.top == y.top
    return True


@pytest.mark.parametrize("kinds", [FUSED, [*FUSED, *OTHERS], FUSED[:1] * 4])
def test_fused_samples_equal_those_of_plain_torch(
    counting: CountingLibrary, kinds: list[dict[str, Any]]
) -> None:
    found = sample_steps(make_sampler(counting), kinds, 12)
    assert same(found, sample_steps(make_sampler(None), kinds, 12))
    assert counting.launched.count("sample_rows") == 12
    assert any(len(sampled.token_ids) > 1 for step in found for sampled in step)


@pytest.mark.parametrize(
    "fields",
    [
        FUSED[2],
        {"temperature": 0, "presence_penalty": 3.0},
        {"top_k": 9, "repeat_penalty": 1.4, "frequency_penalty": 0.9},
        {"top_k": 9, "repeat_penalty": 1.4, "repeat_last_n": 2},
        {"typical_p": 0.9, "frequency_penalty": 0.9},
    ],
)
def test_overlapped_steps_give_the_same_samples(
    library: CPUKernelLibrary, fields: dict[str, Any]
) -> None:
    """With steps that are launched before the previous one is collected."""
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(3))

    def text(kernels: KernelLibrary | None, *, ahead: bool) -> list[int]:
        sampler, sequence = make_sampler(kernels), start(0, fields)
        pending = sampler.launch([ScheduledChunk(sequence, 1, True)], logits.clone())
        for _ in range(14):
            if ahead:
                sequence.num_awaited = 1
                chunk = ScheduledChunk(sequence, 1, True, awaits=0)
                following = sampler.launch([chunk], logits.clone(), pending.tokens)
                sequence.num_awaited = 0
                sequence.token_ids += sampler.finish(pending)[0].token_ids
            else:
                sequence.token_ids += sampler.finish(pending)[0].token_ids
                following = sampler.launch([ScheduledChunk(sequence, 1, True)], logits.clone())
            pending = following
        return sequence.token_ids[4:]

    expected = text(None, ahead=False)
    assert len(set(expected)) > 3
    assert text(library, ahead=False) == expected
    assert text(library, ahead=True) == expected
    assert text(None, ahead=True) == expected


@pytest.mark.slow
def test_samples_do_not_depend_on_the_rest_of_the_batch(library: CPUKernelLibrary) -> None:
    """Even if some sequences are sampled by torch instead of the kernel."""

    def text(kinds: list[dict[str, Any]], place: int) -> list[int]:
        sampler = make_sampler(library)
        sequences = [start(0, fields) for fields in kinds]
        for step in range(8):
            generator = torch.Generator().manual_seed(step)
            logits = torch.randn(1, VOCAB, generator=generator).repeat(len(kinds), 1)
            chunks = [ScheduledChunk(sequence, 1, True) for sequence in sequences]
            for each, sampled in zip(
                sequences, sampler.finish(sampler.launch(chunks, logits)), strict=True
            ):
                each.token_ids += sampled.token_ids
        return sequences[place].token_ids

    for place, fields in enumerate(FUSED):
        alone = text([fields], 0)
        assert text(FUSED, place) == alone
        assert text([OTHERS[0], OTHERS[2], fields], 2) == alone


@pytest.mark.parametrize(
    ("kinds", "launches"),
    [
        (FUSED[:1], ["sample_rows"]),
        ([FUSED[4], FUSED[2]], ["sample_rows"]),
        (FUSED, ["adjust_logits", "sample_rows"]),
        (OTHERS[:3], []),
        (OTHERS[3:4], ["adjust_logits"]),
    ],
)
def test_launched_kernels(
    counting: CountingLibrary, kinds: list[dict[str, Any]], launches: list[str]
) -> None:
    sampler = make_sampler(counting)
    sequences = [start(3 * index, fields) for index, fields in enumerate(kinds)]
    for sequence in sequences:
        sequence.token_ids += [5, 6, 5]
    chunks = [ScheduledChunk(sequence, 1, True) for sequence in sequences]
    sampler.finish(sampler.launch(chunks, torch.zeros(len(chunks), VOCAB)))
    assert counting.launched == launches


@pytest.mark.slow
def test_launch_does_not_synchronise_with_the_device() -> None:
    """Meta tensors, which cannot be read, stand for a device that is still computing."""
    device = torch.device("meta")
    sampler = make_sampler(CountingLibrary(None), device)
    sequences = [start(index, fields) for index, fields in enumerate([*FUSED, *OTHERS])]
    for sequence in sequences:
        sequence.token_ids += [5, 6, 7]
        sequence.logprobs = 3
    chunks = [ScheduledChunk(sequence, 1, True, (5, 6)) for sequence in sequences]
    pending = sampler.launch(chunks, torch.empty(3 * len(chunks), VOCAB, device=device))
    assert pending.rows.is_meta
    with pytest.raises((RuntimeError, NotImplementedError)):
        sampler.finish(pending)


def test_unchanged_parameters_are_not_uploaded_again(
    library: CPUKernelLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    def upload(array: NDArray[Any], device: torch.device) -> torch.Tensor:
        sent.append(array.nbytes)
        return torch.as_tensor(array, device=device)

    monkeypatch.setattr(fused_sampler, "upload", upload)
    draw = FusedDraw(library, CPU)
    tokens = torch.zeros(1, dtype=torch.int64)
    for fields, uploads in ((FUSED[0], 1), (FUSED[2], 5)):
        sequence = start(0, fields)
        state = SamplingState(sequence)
        for _ in range(4):
            rows = FusedRows.find([ScheduledChunk(sequence, 1, True)], [state], None)
            assert rows is not None
            draw.draw(torch.zeros(1, VOCAB), rows, None, tokens)
            sequence.token_ids.append(3)
        assert len(sent) == uploads
    assert set(sent) == {64}


class LargeVocabularyTokenizer(ByteTokenizer):
    """More tokens than a kernel has room for."""

    vocab_size = MAX_VOCAB + 1


def test_vocabulary_too_large_for_the_kernel_is_sampled_by_torch() -> None:
    library = CountingLibrary(None)
    sampler = BatchSampler(LargeVocabularyTokenizer(), CPU, room=16, kernels=library)
    logits = torch.zeros(1, LargeVocabularyTokenizer.vocab_size)
    logits[0, MAX_VOCAB] = 9.0
    sequence = Sequence("wide", 0, [1, 2], SamplingParams(temperature=0.0))
    pending = sampler.launch([ScheduledChunk(sequence, 1, True)], logits)
    assert sampler.finish(pending)[0].token_ids == [MAX_VOCAB]
    assert library.launched == []
