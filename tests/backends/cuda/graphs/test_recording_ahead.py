"""Steps that are recorded while the worker has nothing to do: order, limits, failures."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from ingle.backends.base.events import Delta, Finished
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SamplingParams
from ingle.backends.cuda import model_runner
from ingle.backends.cuda.compute_backend import ComputeBackend
from ingle.backends.cuda.graphs.step_graphs import Recording
from ingle.backends.cuda.graphs.step_shape import StepShape, StepShapes
from ingle.backends.cuda.model_runner import CudaModelRunner
from ingle.backends.engine.batch import Batch
from ingle.backends.engine.engine import Engine
from ingle.backends.engine.sequence import Sequence
from ingle.backends.text.answers.answer_format import AnswerFormats
from ingle.backends.text.prompts.prompt_builder import PromptBuilder
from ingle.backends.worker.inbox import Inbox
from ingle.backends.worker.model_loader import load_model as load_model_with_loop
from ingle.backends.worker.worker_loop import WorkerLoop
from ingle.backends.worker.worker_protocol import Drain, FromWorker, Outputs
from ingle.kernels.operations import Operations
from ingle.models.fit.paged_fit import RECORDING_BYTES
from ingle.models.kv_type import KVType

LoadModel = Callable[..., CudaModelRunner]

PROMPT = [5, 7, 8, 9] * 5
SHAPES = StepShapes(max_tokens=64, max_sequences=3, max_query=16, max_context=5000)


class IdleRecorder:
    """Stands in for graph capture; notes in `log` what it recorded, and what `runner` computed."""

    def __init__(self, nbytes: int = 0) -> None:
        self.log: list[str] = []
        self.on_record: Callable[[], None] = lambda: None
        self._nbytes = nbytes

    @property
    def count(self) -> int:
        return self.log.count("recorded")

    def __call__(self, work: Callable[[], torch.Tensor]) -> Recording:
        output = work().clone()
        self.log.append("recorded")
        self.on_record()

        def replay() -> None:
            output.copy_(work())

        return Recording(replay, output, self._nbytes)


@pytest.fixture(autouse=True)
def short_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts of 512 tokens have three bounds: 32, 128 and 512."""
    monkeypatch.setattr("ingle.backends.cuda.graphs.step_shape._SMALLEST_CONTEXT", 32)


@pytest.fixture
def load(
    load_model: LoadModel, tiny_path: Path
) -> Callable[[Callable[..., Recording]], CudaModelRunner]:
    """Return a function that loads the tiny model with steps recorded by what it is given."""

    def load(record: Callable[..., Recording]) -> CudaModelRunner:
        backend = ComputeBackend(Operations(torch.float32), record)
        return load_model(tiny_path, backend, slots=3, speculation="off")

    return load


Load = Callable[[Callable[..., Recording]], CudaModelRunner]


@contextmanager
def serving(
    runner: CudaModelRunner, inbox: Inbox | None = None
) -> Generator[tuple[Inbox, queue.Queue[FromWorker]]]:
    """Run the worker's loop, which ends with the block."""
    inbox = inbox or queue.SimpleQueue()
    sent: queue.Queue[FromWorker] = queue.Queue()
    prompts = PromptBuilder(runner.tokenizer, None, context=runner.context)
    forms = AnswerFormats(runner.tokenizer, None)
    spec = LoadSpec(engine="cuda", path="tiny", context=512)
    loop = WorkerLoop(Engine(runner), runner.tokenizer, prompts, forms, sent.put, inbox, spec)
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield inbox, sent
    inbox.put(Drain())
    thread.join(30)
    assert not thread.is_alive()


def ask(tokens: int = 20) -> GenerateRequest:
    params = SamplingParams(temperature=0.0)
    return GenerateRequest(
        id="a", prompt=PROMPT, max_tokens=tokens, sampling=params, ignore_eos=True
    )


def answer(sent: queue.Queue[FromWorker]) -> list[int]:
    """Wait for the answer's end, and return its tokens."""
    tokens: list[int] = []
    while True:
        message = sent.get(timeout=30)
        for event in message.events if isinstance(message, Outputs) else ():
            if isinstance(event, Delta):
                tokens += event.token_ids
            if isinstance(event, Finished):
                return tokens


def expected_answer(load_model: LoadModel, tiny_path: Path, tokens: int = 20) -> list[int]:
    engine = Engine(load_model(tiny_path))
    params = SamplingParams(temperature=0.0)
    sequence = Sequence("a", 0, list(PROMPT), params, max_tokens=tokens, ignore_eos=True)
    engine.add(sequence)
    while engine.has_work:
        engine.step()
    return sequence.token_ids[len(PROMPT) :]


def test_all_expected_shapes_are_recorded_before_the_first_request(
    load: Load, load_model: LoadModel, tiny_path: Path
) -> None:
    """An answer of 200 tokens grows through all contexts, and no step of it waits for a capture."""
    recorder = IdleRecorder()
    runner, finished = load(recorder), threading.Event()
    assert recorder.count == 3, "of 1, 2 and 3 sequences with the shortest context"
    recorder.on_record = lambda: finished.set() if recorder.count == 9 else None
    with serving(runner) as (inbox, sent):
        assert finished.wait(30)
        assert runner.prepare_step() is False
        inbox.put(ask(200))
        assert answer(sent) == expected_answer(load_model, tiny_path, 200)
    assert recorder.count == 9


def test_draft_model_is_recorded_ahead_after_the_model(
    load_model: LoadModel, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the worker's own composition, and without a change of the text that both make."""
    draft_path = tmp_path / "draft.gguf"  # the model's own path would mean its head
    draft_path.symlink_to(tiny_path)
    expected, recorder = expected_answer(load_model, tiny_path, 200), IdleRecorder()
    backend = ComputeBackend(Operations(torch.float32), recorder)

    def open_backend(*_: object) -> ComputeBackend:
        return backend

    monkeypatch.setattr(model_runner, "open_compute_backend", open_backend)
    spec = LoadSpec(
        engine="cuda",
        path=str(tiny_path),
        draft_path=str(draft_path),
        speculation="draft",
        context=512,
        slots=2,
        threads=1,
        device="cpu",
        kv_type=KVType.F32,
    )
    finished, prepare = threading.Event(), Engine.prepare_step

    def noted(engine: Engine) -> bool:
        if prepare(engine):
            return True
        finished.set()
        return False

    monkeypatch.setattr(Engine, "prepare_step", noted)
    sent: queue.Queue[FromWorker] = queue.Queue()
    inbox: Inbox = queue.SimpleQueue()
    with load_model_with_loop(spec, sent.put, inbox) as (loop, info):
        assert info.draft == str(draft_path)
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        assert finished.wait(30)
        # One and two sequences in three contexts for both models, and seven numbers of drafts in
        # each context for the one that verifies them.
        assert recorder.count == 2 * 2 * 3 + 7 * 3
        inbox.put(ask(200))
        assert answer(sent) == expected
        inbox.put(Drain())
        thread.join(30)
    # Nor did a step of the answer wait for a recording.
    assert recorder.count == 2 * 2 * 3 + 7 * 3


def test_request_waits_for_one_recording_at_most(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = IdleRecorder()
    runner = load(recorder)
    launch = runner.launch

    def logged(batch: Batch) -> None:
        recorder.log.append("launched")
        launch(batch)

    monkeypatch.setattr(runner, "launch", logged)
    del recorder.log[:]
    inbox: Inbox = queue.SimpleQueue()
    # It arrives while the first of six shapes is recorded.
    recorder.on_record = lambda: inbox.put(ask(1)) if recorder.count == 1 else None
    with serving(runner, inbox) as (_, sent):
        answer(sent)
        rest = threading.Event()
        recorder.on_record = lambda: rest.set() if recorder.count == 6 else None
        assert recorder.count == 6 or rest.wait(30)
    assert recorder.log[0] == "recorded"
    assert recorder.log[1] == "launched", "no second recording came before it"


def test_nothing_is_recorded_ahead_while_sequences_run(load: Load) -> None:
    recorder = IdleRecorder()
    engine = Engine(load(recorder))
    sequence = Sequence("a", 0, list(PROMPT), SamplingParams(), max_tokens=4, ignore_eos=True)
    engine.add(sequence)
    while engine.has_work:
        before = recorder.count
        assert not engine.prepare_step()
        assert recorder.count == before
        engine.step()
    assert engine.prepare_step()


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError(), torch.AcceleratorError("CUDA error: invalid argument")]
)
def test_failed_recording_ends_recording_ahead(
    load: Load, load_model: LoadModel, tiny_path: Path, error: Exception
) -> None:
    recorder = IdleRecorder()
    runner = load(recorder)

    def fail() -> None:
        raise error

    recorder.on_record = fail
    assert runner.prepare_step()
    assert not runner.prepare_step()
    tried = recorder.count
    with serving(runner) as (inbox, sent):
        inbox.put(ask())
        assert answer(sent) == expected_answer(load_model, tiny_path)
    assert recorder.count == tried, "the shape that failed is not tried again"


def test_recordings_stay_within_their_memory(
    load: Load, load_model: LoadModel, tiny_path: Path
) -> None:
    """Half of it is for shapes that come up: here those of longer contexts, one after the other."""
    recorder = IdleRecorder(RECORDING_BYTES // 9)
    runner = load(recorder)
    while runner.prepare_step():
        continue
    assert recorder.count == 5
    recorder = IdleRecorder(RECORDING_BYTES // 4)
    runner = load(recorder)
    assert not runner.prepare_step()
    with serving(runner) as (inbox, sent):
        inbox.put(ask(200))
        assert answer(sent) == expected_answer(load_model, tiny_path, 200)
    assert recorder.count == 4, "the last context found no memory left"


def test_engine_without_recordings_prepares_nothing(load_model: LoadModel, tiny_path: Path) -> None:
    assert not Engine(load_model(tiny_path)).prepare_step()


def test_few_sequences_and_short_contexts_are_expected_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    plain = SHAPES.expected(verifies=False)
    assert plain == [
        StepShape(size, size, 1, context) for size in (1, 2, 3) for context in (1024, 4096, 5000)
    ]
    both = SHAPES.expected(verifies=True)
    drafts = [shape for shape in both if shape not in plain]
    assert [shape for shape in both if shape in plain] == plain
    assert both[3 : 3 + len(drafts)] == drafts, "after one sequence without drafts"
    assert [shape.tokens for shape in drafts] == [2, 3, 4, 6, 8, 12, 16] * 3
    for shape in both:
        assert SHAPES.around(shape) == shape
