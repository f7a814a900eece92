"""Whether a smaller model or a head can draft, and whether that can pay on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from ingle.models.fit.llama_cpp_fit import DRAFT_BATCH

from ...base.errors import LoadFailed
from ...base.load_spec import LoadSpec
from ...text.tokenization.tokenizer import Tokenizer
from ..local_runner import LocalDraftRunner, LocalRunner
from .draft_length import DraftLength
from .head_drafter import HeadDrafter, HeadSteps, measure_head
from .model_drafter import ModelDrafter
from .step_costs import StepCosts, measure_steps

CALIBRATION_SIZES = (1, 4, 8, 16, 1)

_AS_GOOD_AS_IT_GETS = 0.95
"""An acceptance rate that no draft model sustains."""
_PADDING = 128
"""Makers round vocabularies up, so sizes may differ by tokens that never occur."""

OpenDraft = Callable[[LoadSpec], LocalDraftRunner]


def pair_drafter(
    spec: LoadSpec, target: LocalRunner, costs: StepCosts, open_draft: OpenDraft
) -> ModelDrafter:
    """Load `spec.draft_path` as the draft of `target`, whose steps are measured into `costs`.

    Raises `LoadFailed` where it does not match, cannot be loaded, or could not make this machine
    any faster; unless the draft was asked for, a machine that slow does not even load it.
    """
    assert spec.draft_path is not None
    path = Path(spec.draft_path)
    measure_steps(target, costs, CALIBRATION_SIZES)
    asked = spec.speculation == "draft"
    # A step of one token reads all weights once, and takes as long as that.
    step = costs.seconds(1) * _bytes(path) / max(1, _bytes(Path(spec.path)))
    if not asked:
        _refuse_if_too_slow(path.name, costs, target.max_drafts, step)
    draft_spec = msgspec.structs.replace(
        spec, path=str(path), batch=min(spec.batch, DRAFT_BATCH), draft_path=None, speculation="off"
    )
    runner = open_draft(draft_spec)
    try:
        check_pair(target.tokenizer, runner.tokenizer, path.name)
        if not runner.can_fork:
            raise LoadFailed(f"{path.name} cannot draft: its state cannot be cut at a token.")
        draft_costs = StepCosts()
        measure_steps(runner, draft_costs, (1, 1))
        if not asked:
            _refuse_if_too_slow(path.name, costs, target.max_drafts, draft_costs.seconds(1))
    except LoadFailed:
        runner.close()
        raise
    return ModelDrafter(runner, draft_costs)


class HeadedRunner(LocalRunner, Protocol):
    """The runner of a model with a head."""

    @property
    def head(self) -> HeadSteps:
        """The head in its steps."""
        ...

    def drop_head(self) -> None:
        """Free the head, and the cache, to be opened anew."""
        ...


def pair_head(spec: LoadSpec, target: HeadedRunner, costs: StepCosts) -> HeadDrafter:
    """The drafter of a model's head, after its steps were measured into `costs`.

    Raises `LoadFailed`, and frees the head, where it could not make this machine any faster, unless
    drafts were asked for.
    """
    measure_steps(target, costs, CALIBRATION_SIZES)
    head_costs = StepCosts()
    measure_head(target, target.head, head_costs)
    if spec.speculation != "draft":
        try:
            _refuse_if_too_slow("The head", costs, target.max_drafts, head_costs.seconds(1))
        except LoadFailed:
            target.drop_head()
            raise
    return HeadDrafter(target.head, head_costs)


def check_pair(target: Tokenizer, draft: Tokenizer, name: str) -> None:
    """Check that both models have the same vocabulary; raises `LoadFailed`."""
    different = vocabulary_difference(target, draft)
    if different is not None:
        raise LoadFailed(
            f"{name} cannot draft for this model: {different}.",
            hint="Choose a smaller model of the same family.",
        )


def vocabulary_difference(target: Tokenizer, draft: Tokenizer) -> str | None:
    """The first difference between two vocabularies as a clause; None if they match."""
    if abs(target.vocab_size - draft.vocab_size) > _PADDING:
        return f"their vocabularies have {target.vocab_size} and {draft.vocab_size} tokens"
    for name in ("adds_bos", "bos_text", "eos_text"):
        if getattr(target, name) != getattr(draft, name):
            return f"they differ in {name}: {getattr(target, name)!r}, {getattr(draft, name)!r}"
    for token in range(min(target.vocab_size, draft.vocab_size)):
        if target.token_bytes(token, special=True) != draft.token_bytes(token, special=True):
            return f"token {token} is not the same text to both"
        if target.is_eog(token) != draft.is_eog(token):
            return f"token {token} ends the answer of only one of them"
    return None


def _bytes(path: Path) -> int:
    """Of a model's file, or of all weights in its folder."""
    try:
        files = path.glob("*.safetensors") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files)
    except OSError as error:
        raise LoadFailed(f"The model {path} cannot be read: {error.strerror}.") from error


def _refuse_if_too_slow(name: str, costs: StepCosts, most: int, step: float) -> None:
    depth, _ = DraftLength(costs).choose_depth(
        1, [_AS_GOOD_AS_IT_GETS], most, lambda count: count * step
    )
    if not depth:
        raise LoadFailed(
            f"{name} is not used: on this machine, verifying its drafts takes longer than "
            "doing without."
        )
