"""A second, smaller model in the same worker that guesses for the first."""

from __future__ import annotations

import llama_cpp
import numpy as np

from ..base.load_spec import LoadSpec
from ..engine.speculation.draft_pairing import pair_drafter
from ..engine.speculation.model_drafter import ModelDrafter
from ..engine.speculation.step_costs import StepCosts
from .model_runner import LlamaModelRunner


class LlamaDraftRunner(LlamaModelRunner):
    """The runner of a draft model: greedy, and it tells how sure it is."""

    def __init__(self, spec: LoadSpec, vocab_size: int) -> None:
        """Tokens from `vocab_size` on are unknown to the other model, and never guessed."""
        super().__init__(spec)
        self._common = min(vocab_size, self.tokenizer.vocab_size)

    def collect_likeliest(self) -> list[tuple[int, float]]:
        """The likeliest token of each sampling chunk, and its probability."""
        shape = (len(self._sampling), self.tokenizer.vocab_size)
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._ctx), shape)
        likeliest: list[tuple[int, float]] = []
        for row in logits[:, : self._common]:
            token = int(row.argmax())
            likeliest.append((token, 1 / float(np.exp(row - row[token]).sum())))
        return likeliest


def open_drafter(spec: LoadSpec, target: LlamaModelRunner, costs: StepCosts) -> ModelDrafter:
    """See `pair_drafter`; whatever comes of it, llama.cpp's log is the target's again."""
    size = target.tokenizer.vocab_size
    try:
        return pair_drafter(spec, target, costs, lambda draft: LlamaDraftRunner(draft, size))
    finally:
        target.listen()
