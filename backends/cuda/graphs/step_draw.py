"""The kernels with which a recorded decoding step finds its inputs and draws its tokens."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ingle.kernels.continue_step import launch_continue_step
from ingle.kernels.launch.kernel_library import KernelLibrary
from ingle.kernels.token_sampling import SAMPLE_ROW, SamplingKernel, sample_row
from ingle.models.fit.paged_fit import PAGE_SIZE

from ..sampling.upload import pinned, upload
from .step_inputs import StepInputs


class StepDraw:
    """Draws for steps with one token of each sequence, by parameters at a fixed address."""

    def __init__(
        self, inputs: StepInputs, library: KernelLibrary, device: torch.device, *, vocab_size: int
    ) -> None:
        """At most `len(inputs.drawn)` rows; logits from `vocab_size` on belong to no token."""
        self._inputs = inputs
        self._library = library
        self._device = device
        self._vocab_size = vocab_size
        self._kernel = SamplingKernel(library, device)
        # A step whose tokens are drawn otherwise draws by any parameters: its own row is in each.
        rows = [sample_row(temperature=0, row=row) for row in range(len(inputs.drawn))]
        self._rows = upload(np.concatenate(rows).view(np.uint8), device)
        self._rows = self._rows.view(-1, SAMPLE_ROW.itemsize)

    def send(self, parameters: NDArray[np.void]) -> None:
        """Send the `SAMPLE_ROW`s of a step's first rows, in order; nothing waits for it."""
        sent = pinned(parameters.view(np.uint8), self._device)
        rows = self._rows[: len(parameters)]
        rows.copy_(sent.view(-1, SAMPLE_ROW.itemsize), non_blocking=True)

    def begin(self) -> None:
        """Put the tokens of the step in place, or move on from the step before."""
        count = self._inputs.shape.tokens
        launch_continue_step(
            self._library, self._inputs.decode_inputs(self._rows[:count]), PAGE_SIZE
        )

    def draw(self, logits: torch.Tensor) -> None:
        """Draw a token from each row of `logits` (rows, vocabulary or more) into `drawn`."""
        logits = logits[:, : self._vocab_size]
        self._kernel.draw(logits, self._rows[: len(logits)], self._inputs.drawn)

    def is_right(self, logits: torch.Tensor) -> bool:
        """Whether greedy tokens that were drawn from `logits` are likeliest; waits for them."""
        logits = logits[:, : self._vocab_size].nan_to_num(-torch.inf)
        drawn = logits.gather(1, self._inputs.drawn[: len(logits), None]).squeeze(1)
        return bool((drawn == logits.amax(-1)).all())
