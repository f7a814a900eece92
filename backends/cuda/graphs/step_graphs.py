"""CUDA graphs of whole forward passes, recorded by shape."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch

from ingle.kernels.errors import KernelError
from ingle.models.fit.paged_fit import PAGE_SIZE

from ...base.sampling_params import SamplingParams
from ...engine.batch import Batch
from ...engine.sequence import Sequence
from .step_draw import StepDraw
from .step_inputs import StepInputs
from .step_shape import StepShape, StepShapes

_TOLERANCE = 1e-2
"""Of logits, relative and absolute: sums over parallel blocks may differ in their order."""

_TRIAL_TOKENS = 8
"""The first tokens of a vocabulary, which any model has."""


class Recording(NamedTuple):
    """Recorded work; `replay` starts it again, and `output` is at the same address every time.

    `nbytes` are those of the GPU that the driver took for it, beside torch's memory.
    """

    replay: Callable[[], None]
    output: torch.Tensor
    nbytes: int = 0


Record = Callable[[Callable[[], torch.Tensor]], Recording]
"""Runs work once, and records it; raises `torch.OutOfMemoryError`."""


class GraphRecorder:
    """Records on torch's current device; recordings share the memory of intermediate values.

    The output of a recording keeps its memory for as long as the recording.
    """

    def __init__(self, recording: Callable[[], AbstractContextManager[None]]) -> None:
        """Capture within `recording()`, see `GPULibrary`."""
        self._recording = recording
        self._pool = torch.cuda.graph_pool_handle()
        # Always the same one: libraries of torch keep memory for each stream that they ever saw.
        self._side = torch.cuda.Stream()

    def __call__(self, work: Callable[[], torch.Tensor]) -> Recording:
        """Run `work` once, for what is allocated at first use, and record it.

        Raises `torch.OutOfMemoryError`.
        """
        before = _driver_bytes()
        self._side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self._side):
                work()
        finally:  # kernels share memory, so what follows must wait for what has begun
            torch.cuda.current_stream().wait_stream(self._side)
        graph = torch.cuda.CUDAGraph()
        # `torch.cuda.graph` would wait for the GPU and empty torch's caches, also those of pinned
        # memory: running sequences would wait until they are filled again.
        with torch.cuda.stream(self._side):
            # Another model's thread may be busy with the same GPU meanwhile.
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                with self._recording():
                    output = work()
            finally:
                graph.capture_end()
        return Recording(graph.replay, output, max(0, _driver_bytes() - before))


def _driver_bytes() -> int:
    """Bytes of the GPU in use that torch's allocator does not know of, those of others included."""
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


class StepGraphs:
    """Runs decoding steps as recordings, made ahead while idle or when a shape first comes up.

    A step with one token a sequence, or a few with drafts to verify, is hundreds of launches that
    take longer to start than to run. As a recording it is one launch.
    """

    def __init__(
        self,
        inputs: StepInputs,
        forward: Callable[[], torch.Tensor],
        record: Record,
        shapes: StepShapes,
        *,
        padding_slot: int,
        room: int,
        verifies: bool = False,
        draw: StepDraw | None = None,
    ) -> None:
        """`forward` computes what `inputs` hold; keys at `padding_slot` are never read.

        With `draw`, steps without drafts put tokens in place and draw by themselves.

        Recordings take up to `room` bytes of the driver's memory, half of which is kept for shapes
        that come up unexpectedly. Steps with drafts are expected if the model `verifies` some.
        """
        self._inputs = inputs
        self._forward = forward
        self._record = record
        self._shapes = shapes
        self._padding_slot = padding_slot
        self._room = room
        self._draw = draw
        self._used = 0
        self._expected = deque(shapes.expected(verifies=verifies))
        self._recordings: dict[StepShape, Recording | None] = {}
        self._logits: torch.Tensor | None = None

    def fit(self) -> StepShape | None:
        """Pad the inputs to a shape that can be recorded; None if the step cannot be."""
        if self._inputs.num_rows != self._inputs.shape.tokens:
            return None
        shape = self._shapes.around(self._inputs.shape)
        if shape is not None:
            self._inputs.pad(shape, self._padding_slot)
        return shape

    def draws(self, shape: StepShape) -> bool:
        """Whether a run puts tokens in place, and draws from all rows into the inputs' `drawn`."""
        return self._draw is not None and shape.longest_query == 1

    def run(self, shape: StepShape) -> torch.Tensor:
        """Logits for inputs of this shape, which have been sent; the next run overwrites them."""
        if shape not in self._recordings:
            drawn = self._inputs.drawn.clone()
            self._recordings[shape] = self._try_record()
            if self.draws(shape):  # it was computed once, which changed its inputs
                self._inputs.drawn.copy_(drawn)
                self._inputs.upload(in_place=False)
        recording = self._recordings[shape]
        if recording is None:
            return self._step()
        recording.replay()
        return recording.output

    def _try_record(self) -> Recording | None:
        """None if memory is short, or the driver cannot: without a recording a step is slower.

        After a fault of the GPU itself the step fails without one, too.
        """
        if self._used >= self._room:
            return None
        try:
            recording = self._record(self._compute)
        except (torch.OutOfMemoryError, torch.AcceleratorError):
            return None
        self._used += recording.nbytes
        return recording

    def _compute(self) -> torch.Tensor:
        """Logits at one address for all recordings: separate ones would take GiBs."""
        found = self._step()
        if self._logits is None:
            self._logits = found.new_empty((self._shapes.max_tokens, found.shape[1]))
        return self._logits[: len(found)].copy_(found)

    def _step(self) -> torch.Tensor:
        """Logits for the inputs; with the draw, if that is a part of such a step."""
        if self._draw is None or not self.draws(self._inputs.shape):
            return self._forward()
        self._draw.begin()
        logits = self._forward()
        self._draw.draw(logits)
        return logits

    def record_first(self, on_recorded: Callable[[], None] = lambda: None) -> None:
        """Record the shapes needed first; inputs and the first pages are overwritten.

        `on_recorded` is called after each. Raises `KernelError` if a replay computes something else
        than the same step without it.
        """
        for shape in self._shapes.first():
            # Of sequences throughout, since attention leaves rows of padding undefined.
            self._inputs.fill(self._trial(shape.sequences))
            self._inputs.pad(shape, self._padding_slot)
            self._inputs.upload(in_place=not self.draws(shape))
            replayed, plain = self.run(shape).float(), self._forward().float()
            if not torch.allclose(
                replayed, plain, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
            ):
                off = float((replayed - plain).abs().max())
                raise _wrong(shape, f"is off by {off:.1e}")
            if self._draw is not None:
                if not self._draw.is_right(replayed):
                    raise _wrong(shape, "draws wrong tokens")
                self._check_continued(shape)
            on_recorded()

    def _check_continued(self, shape: StepShape) -> None:
        """Compare the inputs that the device finds for a second step with those that belong there.

        Raises `KernelError`.
        """
        inputs = self._inputs
        step = inputs.attention
        positions, lengths = step.positions + 1, step.context_lengths + 1
        pages = step.block_tables.gather(1, (positions // PAGE_SIZE)[:, None]).squeeze(1)
        slots, tokens = pages * PAGE_SIZE + positions % PAGE_SIZE, inputs.drawn[: shape.tokens] + 0
        self.run(shape)
        expected = positions, lengths, slots, tokens
        found = step.positions, step.context_lengths, step.slot_mapping, inputs.token_ids
        if not all(torch.equal(a.long(), b.long()) for a, b in zip(found, expected, strict=True)):
            raise _wrong(shape, "is not continued by the next one")

    def record_next(self) -> bool:
        """Record the next shape that steps are expected to have; False if there is none to record.

        Only between two steps: the inputs are overwritten. None follows one that fails.
        """
        while self._expected and 2 * self._used < self._room:
            shape = self._expected.popleft()
            if shape in self._recordings:
                continue
            # Of padding alone, since pages hold the keys of conversations by now.
            self._inputs.fill(Batch())
            self._inputs.pad(shape, self._padding_slot)
            self._inputs.upload(in_place=not self.draws(shape))
            self._recordings[shape] = self._try_record()
            if self._recordings[shape] is None:
                self._expected.clear()
            return True
        return False

    def _trial(self, count: int) -> Batch:
        """So many sequences of one token, each in a page of its own or with the same token."""
        batch = Batch()
        for row in range(count):
            page = row % max(1, self._padding_slot // PAGE_SIZE)
            sequence = Sequence("trial", row, [page % _TRIAL_TOKENS], SamplingParams(seed=0))
            sequence.block_table = [page]
            batch.add(sequence, 1)
        return batch


def _wrong(shape: StepShape, how: str) -> KernelError:
    return KernelError(
        f"A recorded step of {shape.tokens} tokens {how}.",
        hint="Let llama.cpp run the model, and report this with the name of your GPU.",
    )
