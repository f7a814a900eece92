"""The runner of a draft model, and its pairing with a target."""

from __future__ import annotations

from collections.abc import Callable

import llama_cpp
import numpy as np

from ..base.load_spec import LoadSpec
from ..engine.speculation.draft_pairing import pair_drafter
from ..engine.speculation.model_drafter import ModelDrafter
from ..engine.speculation.step_costs import StepCosts
from .model_runner import LlamaModelRunner


class LlamaDraftRunner(LlamaModelRunner):
    """The runner of a draft model: greedy, with the probability of each token."""

    def __init__(
        self, spec: LoadSpec, vocab_size: int, on_progress: Callable[[float], None] | None = None
    ) -> None:
        """Tokens from `vocab_size` on are unknown to the target and never drafted."""
        super().__init__(spec, on_progress)
        self._common = min(vocab_size, self.tokenizer.vocab_size)

    def collect_likeliest(self) -> list[tuple[int, float]]:
        """Return the likeliest token of each sampling chunk, and its probability."""
        shape = (len(self._sampling), self.tokenizer.vocab_size)
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape)
        likeliest: list[tuple[int, float]] = []
        for row in logits[:, : self._common]:
            token = int(row.argmax())
            likeliest.append((token, 1 / float(np.exp(row - row[token]).sum())))
        return likeliest


def open_drafter(
    spec: LoadSpec,
    target: LlamaModelRunner,
    costs: StepCosts,
    on_progress: Callable[[float], None] | None = None,
) -> ModelDrafter:
    """See `pair_drafter`; in any case, llama.cpp's log returns to the target."""
    size = target.tokenizer.vocab_size
    try:
        return pair_drafter(
            spec, target, costs, lambda draft: LlamaDraftRunner(draft, size, on_progress)
        )
    finally:
        target.listen()
