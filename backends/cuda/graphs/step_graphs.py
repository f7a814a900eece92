"""Whole forward passes, recorded by shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from ...engine.batch import Batch
from .graph_recorder import Recording
from .step_inputs import StepInputs
from .step_shape import StepShape, StepShapes


class Recorder(Protocol):
    """See `GraphRecorder`."""

    def record(self, work: Callable[[], torch.Tensor]) -> Recording:
        """Run the work, and keep it to be started again."""
        ...


class StepGraphs:
    """Runs decoding steps as recordings, which are made when a shape first comes up.

    A step that computes a token at a time, or a few for each sequence whose drafts are checked, is
    hundreds of launches that take longer to start than to run. As a recording it is one.
    """

    def __init__(
        self,
        inputs: StepInputs,
        forward: Callable[[], torch.Tensor],
        recorder: Recorder,
        shapes: StepShapes,
        *,
        padding_slot: int,
    ) -> None:
        """`forward` computes what `inputs` hold; nobody reads what is stored at `padding_slot`."""
        self._inputs = inputs
        self._forward = forward
        self._recorder = recorder
        self._shapes = shapes
        self._padding_slot = padding_slot
        self._recordings: dict[StepShape, Recording | None] = {}
        self._logits: torch.Tensor | None = None

    def fit(self) -> StepShape | None:
        """Fill the inputs up to a shape that can be recorded, where the step is of that kind."""
        if self._inputs.num_rows != self._inputs.shape.tokens:
            return None
        shape = self._shapes.around(self._inputs.shape)
        if shape is not None:
            self._inputs.pad(shape, self._padding_slot)
        return shape

    def run(self, shape: StepShape) -> torch.Tensor:
        """Logits for inputs of this shape, which have been sent; the next run overwrites them."""
        if shape not in self._recordings:
            self._recordings[shape] = self._record()
        recording = self._recordings[shape]
        if recording is None:
            return self._forward()
        recording.replay()
        return recording.output

    def _record(self) -> Recording | None:
        """None where memory is short: without a recording a step is slower, and that is all."""
        try:
            return self._recorder.record(self._compute)
        except torch.OutOfMemoryError:
            return None

    def _compute(self) -> torch.Tensor:
        """Logits, where those of all recordings are: places of their own would be GiBs together."""
        found = self._forward()
        if self._logits is None:
            self._logits = found.new_empty((self._shapes.max_tokens, found.shape[1]))
        return self._logits[: len(found)].copy_(found)

    def record_first(self) -> None:
        """Record what is wanted soon; the inputs are overwritten."""
        for shape in self._shapes.first():
            self._inputs.fill(Batch())
            self._inputs.pad(shape, self._padding_slot)
            self._inputs.upload()
            self.run(shape)
