"""What drafts for a model: a second, smaller model on the same device, or a head of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch

from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec
from ..engine.batch import Batch
from ..engine.speculation.adaptive_speculator import Drafter
from ..engine.speculation.draft_pairing import pair_drafter, pair_head
from ..engine.speculation.step_costs import StepCosts
from .compute_backend import ComputeBackend
from .model_files import ModelSource
from .model_runner import CudaModelRunner


class CudaDraftRunner(CudaModelRunner):
    """The runner of a draft model: greedy, with the probability of each token."""

    def __init__(
        self,
        spec: LoadSpec,
        vocab_size: int,
        source: ModelSource | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """Tokens from `vocab_size` on are unknown to the other model, and never drafted."""
        super().__init__(spec, on_progress, source=source)
        self._common = min(vocab_size, self.tokenizer.vocab_size)

    def _load(self, source: ModelSource, backend: ComputeBackend | None) -> None:
        if source.files.config.state_bytes:
            name = Path(self._spec.path).name
            raise LoadFailed(f"{name} cannot draft: its states cannot be cut at a token.")
        super()._load(source, backend)

    def launch(self, batch: Batch) -> None:
        """See `ModelRunner.launch`; uncollected samples are dropped."""
        self._launched.clear()
        super().launch(batch)

    @torch.inference_mode()
    def collect_likeliest(self) -> list[tuple[int, float]]:
        """The likeliest token of each sampling chunk, and its probability."""
        logits = self._logits[:, : self._common]
        largest, tokens = logits.max(-1, keepdim=True)
        certainty = 1 / (logits - largest).exp().sum(-1, keepdim=True, dtype=torch.float64)
        both = torch.cat((tokens, certainty), -1)
        rows = cast("list[list[float]]", both.tolist())  # pyright: ignore[reportUnknownMemberType]
        return [(int(token), chance) for token, chance in rows]


def open_drafter(
    spec: LoadSpec,
    target: CudaModelRunner,
    costs: StepCosts,
    on_progress: Callable[[float], None] | None = None,
) -> Drafter:
    """See `pair_head` and `pair_drafter`."""
    if target.head.is_loaded:
        return pair_head(spec, target, costs)
    if (error := target.head.refused) is not None:
        raise LoadFailed(error.message, hint=error.hint)
    size = target.tokenizer.vocab_size
    return pair_drafter(
        spec, target, costs, lambda draft: CudaDraftRunner(draft, size, on_progress=on_progress)
    )
