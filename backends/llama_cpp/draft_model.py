"""A second, smaller model in the same worker that guesses for the first."""

from __future__ import annotations

from pathlib import Path

import llama_cpp
import msgspec
import numpy as np

from ingle.models.fit import DRAFT_BATCH

from ..base import LoadSpec
from ..engine.calibration import measure_steps
from ..engine.draft_length import DraftLength
from ..engine.model_drafter import ModelDrafter
from ..engine.step_costs import StepCosts
from ..errors import LoadFailed
from .model_runner import LlamaModelRunner
from .tokenizer import LlamaTokenizer

CALIBRATION_SIZES = (1, 4, 8, 16, 1)

_AS_GOOD_AS_IT_GETS = 0.95
"""The share of right guesses that no draft model keeps up for long."""
_PADDING = 128
"""Makers round vocabularies up, so sizes may differ by tokens that never occur."""


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
    """Load `spec.draft_path` as the draft of `target`, whose steps are measured into `costs`.

    Raises `LoadFailed` where it does not match, cannot be loaded, or could not make this machine
    any faster; unless the draft was asked for, a machine that slow does not even load it.
    """
    assert spec.draft_path is not None
    path = Path(spec.draft_path)
    measure_steps(target, costs, CALIBRATION_SIZES)
    asked = spec.speculation == "draft"
    try:
        size = path.stat().st_size
    except OSError as error:
        raise LoadFailed(f"The draft model {path} cannot be read: {error.strerror}.") from error
    # A step of one token reads all weights once, and takes as long as that.
    step = costs.seconds(1) * size / Path(spec.path).stat().st_size
    if not asked:
        _refuse_if_too_slow(path, costs, target.max_drafts, step)
    draft_spec = msgspec.structs.replace(
        spec, path=str(path), batch=min(spec.batch, DRAFT_BATCH), draft_path=None, speculation="off"
    )
    try:
        runner = LlamaDraftRunner(draft_spec, target.tokenizer.vocab_size)
    finally:
        target.listen()
    try:
        check_pair(target.tokenizer, runner.tokenizer, path.name)
        if not runner.can_fork:
            raise LoadFailed(f"{path.name} cannot draft: its state cannot be cut at a token.")
        draft_costs = StepCosts()
        measure_steps(runner, draft_costs, (1, 1))
        if not asked:
            _refuse_if_too_slow(path, costs, target.max_drafts, draft_costs.seconds(1))
    except LoadFailed:
        runner.close()
        target.listen()
        raise
    return ModelDrafter(runner, draft_costs)


def check_pair(target: LlamaTokenizer, draft: LlamaTokenizer, name: str) -> None:
    """See that both models mean the same by every token; raises `LoadFailed`."""
    different = _difference(target, draft)
    if different is not None:
        raise LoadFailed(
            f"{name} cannot draft for this model: {different}.",
            hint="Choose a smaller model of the same family.",
        )


def _difference(target: LlamaTokenizer, draft: LlamaTokenizer) -> str | None:
    if target.vocab_type != draft.vocab_type:
        return "their tokenizers are of different types"
    if abs(target.vocab_size - draft.vocab_size) > _PADDING:
        return f"their vocabularies have {target.vocab_size} and {draft.vocab_size} tokens"
    for name in ("adds_bos", "bos_text", "eos_text"):
        if getattr(target, name) != getattr(draft, name):
            return f"they differ in {name}: {getattr(target, name)!r}, {getattr(draft, name)!r}"
    for token in range(min(target.vocab_size, draft.vocab_size)):
        if target.raw_text(token) != draft.raw_text(token):
            return f"token {token} is not the same text to both"
        if target.is_eog(token) != draft.is_eog(token):
            return f"token {token} ends the answer of only one of them"
    return None


def _refuse_if_too_slow(path: Path, costs: StepCosts, most: int, step: float) -> None:
    depth, _ = DraftLength(costs).choose_depth(
        1, [_AS_GOOD_AS_IT_GETS], most, lambda count: count * step
    )
    if not depth:
        raise LoadFailed(
            f"{path.name} is not used: on this machine, checking its guesses takes longer than "
            "doing without."
        )
