"""The draft head of a model runner, if its model is loaded with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from ingle.kernels.operations import Operations
from ingle.models.config.model_config import KVHeads
from ingle.models.errors import ModelError
from ingle.models.layers.picture_input import PictureInput

from ...engine.batch import Batch
from ...engine.kv.paged_cache import PagedCache
from ...engine.sequence import Sequence
from ..graphs.step_inputs import StepInputs
from ..kv_pool import KVPool
from .step_head import StepHead

if TYPE_CHECKING:
    from ingle.models.heads.draft_head import DraftHead


class RunnerHead:
    """A head with its place in the runner's pool and steps; without one it does nothing."""

    def __init__(
        self,
        load: Callable[[], DraftHead | None],
        operations: Operations,
        device: torch.device,
    ) -> None:
        """A head that cannot be loaded is `refused`: the model runs without it."""
        self._head: DraftHead | None = None
        self.refused: ModelError | None = None
        """Why there is no head."""
        try:
            self._head = load()
        except ModelError as error:
            self.refused = error
        self._operations = operations
        self._device = device
        self._steps: StepHead | None = None
        self.cache: PagedCache | None = None
        """The manager of the runner's pages, which those for drafts come from."""

    @property
    def is_loaded(self) -> bool:
        """Whether there is a head."""
        return self._head is not None

    @property
    def state_key(self) -> str:
        """What of the contents of pages depends on it."""
        return "" if self._head is None else f", {self._head.title}"

    @property
    def nbytes(self) -> int:
        """Bytes of its weights and of the features that it keeps."""
        if self._head is None:
            return 0
        return self._head.weights_bytes + (0 if self._steps is None else self._steps.nbytes)

    @property
    def kv_heads(self) -> Mapping[int, KVHeads]:
        """The key heads of its layers, which are behind those of the model."""
        return {} if self._head is None else self._head.kv_heads

    def make_room(self, inputs: StepInputs, **sizes: int) -> None:
        """Prepare for steps of these sizes, which `inputs` hold; see `StepHead`."""
        if self._head is not None:
            self._steps = StepHead(self._head, inputs, self._operations, self._device, **sizes)

    def use(self, pool: KVPool | None) -> None:
        """Keep its keys and values in these pages; None before they are freed."""
        if self._steps is not None:
            self._steps.pool = pool

    def show(self, pictures: PictureInput | None) -> None:
        """Compute the next step with these pictures."""
        if self._steps is not None:
            self._steps.pictures = pictures

    def lay_out(self, batch: Batch) -> None:
        """Prepare for a batch, before it is filled in."""
        if self._steps is not None:
            self._steps.lay_out(batch)

    @torch.inference_mode()
    def draft(self, sequences: list[Sequence], depth: int) -> list[list[tuple[int, float]]]:
        """See `HeadSteps`."""
        steps, cache = self._steps, self.cache
        assert steps is not None
        assert cache is not None
        able = [s for s in sequences if steps.knows(s) and cache.reserve_drafts(s, depth)]
        drafts = dict(zip(able, steps.draft(able, depth), strict=True)) if able else {}
        return [drafts.get(sequence, []) for sequence in sequences]

    def drop(self) -> None:
        """Free it; the runner makes room anew."""
        if self._head is not None:
            self._head.leave()
        self._head = self._steps = None
