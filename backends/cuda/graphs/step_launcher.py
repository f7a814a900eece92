"""Starts steps on the device: their inputs, the forward pass, and the draw of their tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...engine.batch import Batch
from ...engine.model_runner import KVCacheFull
from ..sampling.batch_sampler import BatchSampler, PendingSamples
from .step_draw import StepDraw
from .step_graphs import StepGraphs
from .step_inputs import StepInputs
from .step_shape import StepShape


class StepLauncher:
    """Steps by recordings where there are some, and each with as few launches as it allows.

    Plain decoding is one replay after the other, and a copy of the tokens to the host: inputs are
    sent when other sequences take part. What needs the host, such as a grammar, is drawn after the
    replay, and steps with adapters are not recorded. `graphs` and `draw` are set once the model is
    ready for them, and `on_sent` where other ranks compute each batch, too: it is called when the
    inputs are on the device.
    """

    def __init__(
        self,
        inputs: StepInputs,
        forward: Callable[[], torch.Tensor],
        sampler: BatchSampler,
        adapt: Callable[[Batch], bool],
    ) -> None:
        """`forward` computes what `inputs` hold, with the adapters that `adapt` has chosen.

        `adapt` returns whether any row of the batch has one.
        """
        self._inputs = inputs
        self._forward = forward
        self._sampler = sampler
        self._adapt = adapt
        self.graphs: StepGraphs | None = None
        self.draw: StepDraw | None = None
        self.on_sent: Callable[[Batch], None] = lambda _: None
        self.has_pictures = False
        """Whether the next step has any, which is set before it: no recording has."""

    def compute(self, batch: Batch) -> torch.Tensor:
        """Logits (rows, vocabulary) fp32 of all positions that sample; raises `KVCacheFull`."""
        rows, shape = self._fill(batch, adapted=self._adapt(batch) or self.has_pictures)
        self._inputs.upload(in_place=not self._draws(shape))
        self.on_sent(batch)
        return self._run(shape)[:rows]

    def repeat(self, batch: Batch) -> None:
        """Compute what the inputs hold, which are those of another rank's batch."""
        shape = None if self._adapt(batch) or self.graphs is None else self.graphs.fit()
        self._inputs.upload()
        self.on_sent(batch)
        self._run(shape)

    def launch(self, batch: Batch) -> tuple[torch.Tensor, PendingSamples | None]:
        """Start a step; its logits, and what chunks that sample draw. Raises `KVCacheFull`."""
        inputs, chunks, draw = self._inputs, batch.sampling, self.draw
        adapted = self._adapt(batch) or self.has_pictures
        is_plain = draw is not None and not adapted and self._sampler.is_plain(batch.chunks)
        if is_plain and inputs.follow(batch):
            return self._launch_plain(batch, inputs.shape)
        rows, shape = self._fill(batch, adapted=adapted)
        draws = self._draws(shape)
        inputs.upload(in_place=not draws)
        self.on_sent(batch)
        if draw is not None and shape is not None and draws and is_plain:
            draw.send(self._sampler.plain_rows(chunks))
            return self._launch_plain(batch, shape)
        # A recording that draws overwrites the tokens that penalties still await.
        drawn = inputs.drawn.clone() if draws else inputs.drawn
        logits = self._run(shape)[:rows]
        if not chunks:
            return logits, None
        samples = self._sampler.launch(chunks, logits, drawn)
        inputs.keep_drawn(samples.tokens)
        return logits, samples

    def _launch_plain(self, batch: Batch, shape: StepShape) -> tuple[torch.Tensor, PendingSamples]:
        rows = len(batch.chunks)
        logits = self._run(shape)[:rows]
        self._inputs.mark_drawn(batch)
        return logits, self._sampler.send(batch.chunks, self._inputs.drawn[:rows])

    def _fill(self, batch: Batch, *, adapted: bool) -> tuple[int, StepShape | None]:
        """Fill in a batch; its rows of logits, and the shape of its recording if it has one."""
        try:
            self._inputs.fill(batch)
        except ValueError as error:
            raise KVCacheFull from error
        rows = self._inputs.num_rows
        return rows, None if adapted or self.graphs is None else self.graphs.fit()

    def _draws(self, shape: StepShape | None) -> bool:
        return self.graphs is not None and shape is not None and self.graphs.draws(shape)

    def _run(self, shape: StepShape | None) -> torch.Tensor:
        if self.graphs is None or shape is None:
            return self._forward()
        return self.graphs.run(shape)
