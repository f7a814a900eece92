"""Steps of recorded shapes: filled up with tokens of nobody, they say what others say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.graphs.step_graphs import StepGraphs
from ingle.backends.cuda.graphs.step_inputs import StepInputs
from ingle.backends.cuda.graphs.step_shape import StepShape, StepShapes, rounded_up
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.kernels.operations import Operations

LoadModel = Callable[..., CudaModelRunner]

SHAPES = StepShapes(max_tokens=64, max_sequences=16, max_query=16, max_context=5000)


class Recorder:
    """Computes anew what a graph replays: into the same place, and never more or less."""

    def __init__(self) -> None:
        self.recorded: list[tuple[int, ...]] = []
        self.replays = 0

    def __call__(self, work: Callable[[], torch.Tensor]) -> Any:
        recorder, output = self, work().clone()
        self.recorded.append(tuple(output.shape))

        class Recording:
            def __init__(self) -> None:
                self.output = output

            def replay(self) -> None:
                recorder.replays += 1
                again = work()
                assert again.shape == self.output.shape
                self.output.copy_(again)

        return Recording()


class Repeater:
    """Drafts what was just said, as much as there is room for."""

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        each = min(4, room // len(decoding))
        return {sequence: tuple(sequence.token_ids[-4:][:each]) for sequence in decoding}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


def sequences(count: int, tokens: int = 20) -> list[Sequence]:
    """Greedy and drawn, of different lengths."""
    kinds: list[dict[str, Any]] = [{"temperature": 0.0}, {"temperature": 0.9}]
    return [
        Sequence(
            "r",
            index,
            [2 + index, 7, 8, 9] * (5 + index),
            SamplingParams(seed=3, **kinds[index % 2]),
            max_tokens=tokens,
            ignore_eos=True,
        )
        for index in range(count)
    ]


def run(engine: Engine, together: list[Sequence]) -> list[list[int]]:
    for sequence in together:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    return [sequence.token_ids[sequence.prompt_length :] for sequence in together]


@pytest.mark.parametrize("drafts", [False, True])
def test_recorded_steps_say_the_same(
    load_model: LoadModel, tiny_path: Path, *, drafts: bool
) -> None:
    recorder = Recorder()
    backend = ComputeBackend(Operations(torch.float32), recorder)
    plain, recorded = load_model(tiny_path), load_model(tiny_path, backend)
    first = len(recorder.recorded)
    assert first == len(SHAPES.first())

    for count in (1, 5, 16):
        expected = run(Engine(plain), sequences(count))
        assert run(Engine(recorded, Repeater() if drafts else None), sequences(count)) == expected
    assert recorder.replays > 40
    assert (len(recorder.recorded) > first) == drafts


class Keeper:
    """What it records gives the same memory again, as a graph does."""

    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []

    def __call__(self, work: Callable[[], torch.Tensor]) -> Any:
        kept = work()
        self.outputs.append(kept)

        class Recording:
            output = kept

            def replay(self) -> None:
                work()

        return Recording()


def test_logits_of_all_recordings_are_in_one_place() -> None:
    inputs = StepInputs(tokens=16, sequences=4, max_pages=4, device=torch.device("cpu"))
    keeper = Keeper()
    shapes = StepShapes(max_tokens=16, max_sequences=4, max_query=16, max_context=64)

    def forward() -> torch.Tensor:
        return torch.full((inputs.num_rows, 8), float(inputs.num_rows))

    graphs = StepGraphs(inputs, forward, keeper, shapes, padding_slot=0)
    graphs.record_first()
    assert [len(each) for each in keeper.outputs] == [1, 2, 3, 4]
    assert len({each.data_ptr() for each in keeper.outputs}) == 1
    inputs.fill(Batch())
    inputs.pad(StepShape(3, 3, 1, 64), 0)
    assert torch.equal(graphs.run(StepShape(3, 3, 1, 64)), torch.full((3, 8), 3.0))


def test_what_there_is_no_memory_to_record_is_computed(
    load_model: LoadModel, tiny_path: Path
) -> None:
    class Full(Recorder):
        def __call__(self, work: Callable[[], torch.Tensor]) -> Any:
            work()
            self.recorded.append(())
            raise torch.OutOfMemoryError

    recorder = Full()
    backend = ComputeBackend(Operations(torch.float32), recorder)
    plain, full = load_model(tiny_path), load_model(tiny_path, backend)
    assert run(Engine(full), sequences(2)) == run(Engine(plain), sequences(2))
    assert len(recorder.recorded) == len(SHAPES.first())


def test_all_that_attention_is_told_begins_at_16_bytes() -> None:
    for sequences, max_pages in ((1, 1), (3, 5), (6, 2)):
        device = torch.device("cpu")
        inputs = StepInputs(tokens=8, sequences=sequences, max_pages=max_pages, device=device)
        inputs.fill(Batch())
        inputs.pad(StepShape(sequences, sequences, 1, 64), 0)
        step = inputs.attention
        for tensor in (step.block_tables, step.context_lengths, step.query_starts):
            assert tensor.data_ptr() % 16 == 0


def test_a_shape_holds_what_it_is_around() -> None:
    for tokens in range(1, 65):
        for sequences in range(1, min(tokens, 16) + 1):
            shape = SHAPES.around(StepShape(tokens, sequences, 3, 900))
            assert shape is not None
            assert tokens <= shape.tokens < 2 * tokens
            assert sequences <= shape.sequences <= shape.tokens
            assert (shape.longest_query, shape.longest_context) == (16, 1024)
            assert SHAPES.around(shape) == shape


def test_contexts_are_four_times_as_long_each_up_to_the_longest() -> None:
    found = {context: SHAPES.around(StepShape(1, 1, 1, context)) for context in (1, 1024, 1025)}
    assert [shape.longest_context for shape in found.values() if shape] == [1024, 1024, 4096]
    assert SHAPES.around(StepShape(1, 1, 1, 4097)) == StepShape(1, 1, 1, 5000)


@pytest.mark.parametrize("wanted", [StepShape(65, 1, 1, 1), StepShape(17, 1, 17, 17)])
def test_larger_steps_are_not_recorded(wanted: StepShape) -> None:
    assert SHAPES.around(wanted) is None


def test_numbers_are_rounded_up_to_few() -> None:
    assert sorted({rounded_up(n) for n in range(1, 65)}) == [
        1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64,
    ]  # fmt: skip


class Faulty:
    """A device that fails at its first recording, as after an access out of place."""

    def __call__(self, work: Callable[[], torch.Tensor], *_: object) -> Any:
        raise torch.AcceleratorError("CUDA error: misaligned address")


def test_a_gpu_that_fails_while_a_model_is_loaded_is_told(
    load_model: LoadModel, tiny_path: Path
) -> None:
    backend = ComputeBackend(Operations(torch.float32), Faulty())
    with pytest.raises(LoadFailed, match=r"failed while the model was loaded: .*misaligned"):
        load_model(tiny_path, backend)
