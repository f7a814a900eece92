"""CUDA graphs of decoding steps: shapes, padding, shared logits, output equal to eager steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.backends.base.errors import EngineFault
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.graphs.step_graphs import Recording, StepGraphs
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
    """Stands in for graph capture: a replay computes the step again into the recorded output."""

    def __init__(self) -> None:
        self.recorded: list[tuple[int, ...]] = []
        self.replays = 0

    def __call__(self, work: Callable[[], torch.Tensor]) -> Recording:
        output = work().clone()
        self.recorded.append(tuple(output.shape))

        def replay() -> None:
            self.replays += 1
            again = work()
            assert again.shape == output.shape
            output.copy_(again)

        return Recording(replay, output)


class RepeatingSpeculator:
    """Drafts the last generated tokens, as many as there is room for."""

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        each = min(4, room // len(decoding))
        return {sequence: tuple(sequence.token_ids[-4:][:each]) for sequence in decoding}

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        return True

    def observe(self, batch: Batch, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...


def sequences(count: int, tokens: int = 20) -> list[Sequence]:
    """Return greedy and sampled sequences of different lengths."""
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
def test_graph_steps_give_the_same_tokens_as_eager_steps(
    load_model: LoadModel, tiny_path: Path, *, drafts: bool
) -> None:
    recorder = Recorder()
    backend = ComputeBackend(Operations(torch.float32), recorder)
    plain, recorded = load_model(tiny_path), load_model(tiny_path, backend)
    first = len(recorder.recorded)
    assert first == len(SHAPES.first())

    for count in (1, 5, 16):
        expected = run(Engine(plain), sequences(count))
        assert (
            run(Engine(recorded, RepeatingSpeculator() if drafts else None), sequences(count))
            == expected
        )
    assert recorder.replays > 40
    assert (len(recorder.recorded) > first) == drafts


class OutputRecorder:
    """Returns the same memory at each replay, as a graph does."""

    def __init__(self) -> None:
        self.outputs: list[torch.Tensor] = []

    def __call__(self, work: Callable[[], torch.Tensor]) -> Recording:
        kept = work()
        self.outputs.append(kept)

        def replay() -> None:
            work()

        return Recording(replay, kept)


def test_all_graphs_share_one_logits_buffer() -> None:
    inputs = StepInputs(tokens=16, sequences=4, max_pages=4, device=torch.device("cpu"))
    recorder = OutputRecorder()
    shapes = StepShapes(max_tokens=16, max_sequences=4, max_query=16, max_context=64)

    def forward() -> torch.Tensor:
        return torch.full((inputs.num_rows, 8), float(inputs.num_rows))

    graphs = StepGraphs(inputs, forward, recorder, shapes, padding_slot=0, room=1)
    graphs.record_first()
    assert [len(each) for each in recorder.outputs] == [1, 2, 3, 4]
    assert len({each.data_ptr() for each in recorder.outputs}) == 1
    inputs.fill(Batch())
    inputs.pad(StepShape(3, 3, 1, 64), 0)
    assert torch.equal(graphs.run(StepShape(3, 3, 1, 64)), torch.full((3, 8), 3.0))


def test_recording_is_compared_on_rows_of_sequences() -> None:
    """Attention leaves others as the memory was, which differs between a recording and a step."""
    inputs = StepInputs(tokens=16, sequences=4, max_pages=4, device=torch.device("cpu"))
    shapes = StepShapes(max_tokens=16, max_sequences=4, max_query=16, max_context=64)
    compared: list[int] = []

    def forward() -> torch.Tensor:
        lengths, ends = inputs.attention.context_lengths, inputs.attention.query_starts[1:]
        logits = torch.rand(inputs.num_rows, 8)
        real = int(ends[-1])
        logits[:real] = inputs.token_ids[:real, None] + 100.0 * lengths[:real, None]
        compared.append(real)
        return logits

    graphs = StepGraphs(inputs, forward, OutputRecorder(), shapes, padding_slot=2 * 32, room=2**20)
    graphs.record_first()
    assert set(compared) == {1, 2, 3, 4}


def test_steps_run_eagerly_when_capture_runs_out_of_memory(
    load_model: LoadModel, tiny_path: Path
) -> None:
    class Full(Recorder):
        def __call__(self, work: Callable[[], torch.Tensor]) -> Recording:
            work()
            self.recorded.append(())
            raise torch.OutOfMemoryError

    recorder = Full()
    backend = ComputeBackend(Operations(torch.float32), recorder)
    plain, full = load_model(tiny_path), load_model(tiny_path, backend)
    assert run(Engine(full), sequences(2)) == run(Engine(plain), sequences(2))
    assert len(recorder.recorded) == len(SHAPES.first())


def test_attention_inputs_are_aligned_to_16_bytes() -> None:
    for sequences, max_pages in ((1, 1), (3, 5), (6, 2)):
        device = torch.device("cpu")
        inputs = StepInputs(tokens=8, sequences=sequences, max_pages=max_pages, device=device)
        inputs.fill(Batch())
        inputs.pad(StepShape(sequences, sequences, 1, 64), 0)
        step = inputs.attention
        for tensor in (step.block_tables, step.context_lengths, step.query_starts):
            assert tensor.data_ptr() % 16 == 0


def test_rounded_up_shape_contains_the_step() -> None:
    for tokens in range(1, 65):
        for sequences in range(1, min(tokens, 16) + 1):
            shape = SHAPES.around(StepShape(tokens, sequences, 3, 900))
            assert shape is not None
            assert tokens <= shape.tokens < 2 * tokens
            assert sequences <= shape.sequences <= shape.tokens
            assert (shape.longest_query, shape.longest_context) == (4, 1024)
            assert SHAPES.around(shape) == shape


def test_query_sizes_double_up_to_the_maximum() -> None:
    shapes = [SHAPES.around(StepShape(16, 1, longest, 1)) for longest in range(1, 17)]
    assert [shape.longest_query for shape in shapes if shape] == [1, 2, 4, 4, *[8] * 4, *[16] * 8]
    odd = StepShapes(max_tokens=64, max_sequences=4, max_query=12, max_context=512)
    assert odd.around(StepShape(12, 1, 9, 1)) == StepShape(12, 1, 12, 512)


def test_context_sizes_grow_fourfold_up_to_the_maximum() -> None:
    found = {context: SHAPES.around(StepShape(1, 1, 1, context)) for context in (1, 1024, 1025)}
    assert [shape.longest_context for shape in found.values() if shape] == [1024, 1024, 4096]
    assert SHAPES.around(StepShape(1, 1, 1, 4097)) == StepShape(1, 1, 1, 5000)


@pytest.mark.parametrize("wanted", [StepShape(65, 1, 1, 1), StepShape(17, 1, 17, 17)])
def test_steps_beyond_the_limits_have_no_graph(wanted: StepShape) -> None:
    assert SHAPES.around(wanted) is None


def test_counts_are_rounded_up_to_a_few_sizes() -> None:
    assert sorted({rounded_up(n) for n in range(1, 65)}) == [
        1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64,
    ]  # fmt: skip


class FailingOperations(Operations):
    """Operations that fail once `broken` is set."""

    broken = False

    def linear(self, *arguments: Any, **options: Any) -> Any:
        if self.broken:
            raise torch.AcceleratorError("CUDA error: misaligned address")
        return super().linear(*arguments, **options)


class FailingRecorder:
    """A device that fails at its first capture; with `operations`, also in all that follows."""

    def __init__(self, operations: FailingOperations | None = None) -> None:
        self._operations = operations

    def __call__(self, work: Callable[[], torch.Tensor], *_: object) -> Any:
        if self._operations is not None:
            self._operations.broken = True
        raise torch.AcceleratorError("CUDA error: misaligned address")


def test_failed_capture_leaves_steps_unrecorded(load_model: LoadModel, tiny_path: Path) -> None:
    model = load_model(tiny_path, ComputeBackend(Operations(torch.float32), FailingRecorder()))
    assert model.context > 0


def test_gpu_failure_while_loading_is_an_engine_fault(
    load_model: LoadModel, tiny_path: Path
) -> None:
    operations = FailingOperations(torch.float32)
    backend = ComputeBackend(operations, FailingRecorder(operations))
    with pytest.raises(EngineFault, match=r"failed while the model was loaded: .*misaligned"):
        load_model(tiny_path, backend)


class WrongRecorder:
    """Recordings that compute something else."""

    def __call__(self, work: Callable[[], torch.Tensor], *_: object) -> Recording:
        output = work()
        return Recording(lambda: None, output + 1)


def test_wrong_recording_is_an_engine_fault(load_model: LoadModel, tiny_path: Path) -> None:
    backend = ComputeBackend(Operations(torch.float32), WrongRecorder())
    with pytest.raises(EngineFault, match=r"A recorded step of \d+ tokens is off by"):
        load_model(tiny_path, backend)
