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
    ) -> None:
        """`forward` computes what `inputs` hold; keys at `padding_slot` are never read.

        Recordings take up to `room` bytes of the driver's memory, half of which is kept for shapes
        that come up unexpectedly. Steps with drafts are expected if the model `verifies` some.
        """
        self._inputs = inputs
        self._forward = forward
        self._record = record
        self._shapes = shapes
        self._padding_slot = padding_slot
        self._room = room
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

    def run(self, shape: StepShape) -> torch.Tensor:
        """Logits for inputs of this shape, which have been sent; the next run overwrites them."""
        if shape not in self._recordings:
            self._recordings[shape] = self._try_record()
        recording = self._recordings[shape]
        if recording is None:
            return self._forward()
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
        found = self._forward()
        if self._logits is None:
            self._logits = found.new_empty((self._shapes.max_tokens, found.shape[1]))
        return self._logits[: len(found)].copy_(found)

    def record_first(self) -> None:
        """Record the shapes needed first; inputs and the first pages are overwritten.

        Raises `KernelError` if a replay computes something else than the same step without it.
        """
        for shape in self._shapes.first():
            # Of sequences throughout, since attention leaves rows of padding undefined.
            self._inputs.fill(self._trial(shape.sequences))
            self._inputs.pad(shape, self._padding_slot)
            self._inputs.upload()
            replayed, plain = self.run(shape).float(), self._forward().float()
            if not torch.allclose(
                replayed, plain, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True
            ):
                off = float((replayed - plain).abs().max())
                raise KernelError(
                    f"A recorded step of {shape.tokens} tokens is off by {off:.1e}.",
                    hint="Let llama.cpp run the model, and report this with the name of your GPU.",
                )

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
            self._inputs.upload()
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
