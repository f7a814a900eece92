"""Adaptive speculation: which drafter drafts for a sequence, and how many tokens."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..batch import Batch
from ..sequence import Sequence
from .draft import Backoff, Draft
from .draft_length import DraftLength
from .head_drafter import HeadDrafter
from .model_drafter import SHORT_LAG, ModelDrafter
from .ngram_drafter import NgramDrafter
from .step_costs import StepCosts

_FIRST_WINDOW, _LARGEST_WINDOW = 4, 64
_USUAL_REST = 256
"""The assumed rest of an answer without a limit, in tokens."""
_WORTH_PREFILL = 2.0
_HOPE, _ODDS = 0.9, 0.1
"""How good a model may turn out to be that was not good enough so far, and how likely that is."""
_TRIAL = 2
_FIRST_WAIT = 32
_LONGEST_WAIT = 2048
_AT_FIRST = 0.6
_MOST = 6.0
_SHARE = 0.015
_RIGHT, _WRONG = 0.1, 0.3

Drafter = ModelDrafter | HeadDrafter
"""What drafts in steps of its own."""


class DraftLossBudget:
    """A budget that limits the time that rejected drafts of a sequence may cost.

    Its unit is the time of one token of one sequence without drafts. Each step adds a little, and
    each accepted draft token the token that it saved; verification subtracts its cost. The budget
    is bounded, so that savings of long ago do not pay for losses now.
    """

    def __init__(self) -> None:
        self.left = _AT_FIRST

    def accrue(self) -> None:
        """Add the share of one step."""
        self.left = min(self.left + _SHARE, _MOST)

    def settle(self, *, saved: float, spent: float) -> None:
        """Add what drafts saved, and subtract what they cost."""
        self.left = max(min(self.left + saved - spent, _MOST), -_MOST)

    def witness(self, *, right: bool) -> None:
        """Adjust the budget for a draft that was not verified, by whether it was `right`."""
        if self.left < _AT_FIRST:
            change = _RIGHT if right else -_WRONG
            self.left = max(min(self.left + change, _AT_FIRST), -_MOST)


@dataclass
class _Account:
    """The speculation state of one sequence.

    `window` bounds its drafts: it doubles while they are wholly right, as one unlucky long draft
    costs more than several cautious steps. `predicted` was looked up for position `predicted_at`.
    After each `backoff` the model drafts for it again, although that did not pay so far.
    """

    allowance: DraftLossBudget = field(default_factory=DraftLossBudget)
    window: int = _FIRST_WINDOW
    predicted: int = -1
    predicted_at: int = 0
    asks: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_WAIT, _LONGEST_WAIT, wait=0))


class AdaptiveSpeculator:
    """The speculator of a model: n-grams where the text repeats itself, else a model or a head.

    Looking up is free, so it comes first. Both only propose; how much of it a step verifies is
    decided by what the step is expected to yield and to take, and for each sequence an account
    bounds what rejected drafts may cost. Nothing here changes a token: see `ModelRunner.collect`.
    """

    def __init__(
        self,
        *,
        context: int,
        costs: StepCosts | None = None,
        ngrams: NgramDrafter | None = None,
        model: Drafter | None = None,
    ) -> None:
        """`costs` are the measured steps of the model that verifies."""
        self._context = context
        self._costs = costs or StepCosts()
        self._lengths = DraftLength(self._costs)
        self._ngrams = ngrams
        self._model = model
        self._accounts: dict[Sequence, _Account] = {}
        self._accepted: dict[Sequence, int] = {}
        self._asked: list[Sequence] = []
        self._proposing = 0.0
        self._drafting_seconds = 0.0

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        """See `Speculator`."""
        began = time.monotonic()
        self._drafting_seconds, self._asked = 0.0, []
        proposed: dict[Sequence, tuple[int, ...]] = {}
        willing = [s for s in decoding if s.speculates and self._most(s, room) > 0]
        if willing and self._costs.known:
            drafts = self._look_up(willing, room)
            proposed = self._choose(len(decoding), drafts, room)
            if self._model is not None:
                rest = [s for s in willing if s not in proposed]
                left = room - sum(map(len, proposed.values()))
                if more := self._ask(self._model, rest, len(decoding), left):
                    both = {s: drafts[s] for s in proposed} | more
                    proposed = self._choose(len(decoding), both, room)
        self._accepted = {sequence: sequence.accepted_tokens for sequence in proposed}
        self._proposing = time.monotonic() - began
        return proposed

    def waits(self, decoding: list[Sequence], room: int) -> bool:
        """See `Speculator`: drafts that exist already continue after the next tokens, too."""
        willing = [s for s in decoding if s.speculates and self._most(s, room) > 1]
        if not willing or not self._costs.known:
            return False
        if self._choose(len(decoding), self._look_up(willing, room), room, only_asks=True):
            return True
        if self._model is None:
            return False
        able = [s for s in willing if self._account(s).allowance.left > 0]
        chances = [self._model.chance(sequence) for sequence in able]
        depth, _ = self._depth(self._model, len(decoding), chances, room)
        return depth > 0 or any(self._account(s).backoff.is_due(only_asks=True) for s in able)

    def prepare_step(self) -> bool:
        """See `ModelRunner.prepare_step`: of the smaller model, if there is one."""
        return self._model is not None and self._model.prepare_step()

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn from a recorded step, and how long it took, proposing included."""
        seconds -= self._proposing
        self._proposing = 0.0
        asked, self._asked = self._asked, []
        if any(chunk.count != 1 or not chunk.samples for chunk in batch.chunks):
            return
        self._costs.observe(batch.num_tokens, seconds)
        decoding = len(batch.chunks)
        drafted = batch.num_tokens - decoding
        plain = self._costs.seconds(decoding)
        # In units of what one token of one sequence takes without drafts.
        verifying = (self._costs.seconds(batch.num_tokens) / plain - 1) * decoding
        drafting = self._drafting_seconds / plain * decoding / max(len(asked), 1)
        for chunk in batch.chunks:
            account = self._accounts.get(chunk.sequence)
            if account is None:
                continue
            account.allowance.accrue()
            if chunk.sequence in asked:
                account.allowance.settle(saved=0, spent=drafting)
            if chunk.drafts and (before := self._accepted.get(chunk.sequence)) is not None:
                saved = chunk.sequence.accepted_tokens - before
                spent = verifying * len(chunk.drafts) / drafted
                account.allowance.settle(saved=saved, spent=spent)
                if saved < len(chunk.drafts):
                    account.window = max(saved, _FIRST_WINDOW)
                else:
                    account.window = min(2 * account.window, _LARGEST_WINDOW)

    def forget(self, sequence: Sequence) -> None:
        """Free what is kept for a sequence that ended."""
        self._accounts.pop(sequence, None)
        if self._ngrams is not None:
            self._ngrams.forget(sequence)
        if self._model is not None:
            self._model.forget(sequence)

    def close(self) -> None:
        """Free the draft model."""
        if self._model is not None:
            self._model.close()

    def _look_up(self, sequences: list[Sequence], room: int) -> dict[Sequence, Draft]:
        """Drafts by n-grams, if they are as likely as the model's."""
        if self._ngrams is None:
            return {}
        drafts: dict[Sequence, Draft] = {}
        for sequence in sequences:
            account = self._account(sequence)
            most = min(self._most(sequence, room), account.window)
            draft = self._ngrams.propose(sequence, most)
            self._witness(account, sequence, draft)
            if not draft.tokens:
                continue
            # Where the model is worth its time, it is asked unless the text is clearly a copy.
            model = self._model if account.asks else None
            if model is None or draft.chances[0] >= model.chance(sequence):
                drafts[sequence] = draft
        return drafts

    def _witness(self, account: _Account, sequence: Sequence, draft: Draft) -> None:
        """Compare the previous prediction, drafted or not, with the sampled token."""
        known = sequence.token_ids
        if account.predicted >= 0 and account.predicted_at < len(known):
            account.allowance.witness(right=known[account.predicted_at] == account.predicted)
        account.predicted = draft.tokens[0] if draft.tokens else -1
        account.predicted_at = len(known)

    def _choose(
        self,
        decoding: int,
        drafts: dict[Sequence, Draft],
        room: int,
        *,
        only_asks: bool = False,
    ) -> dict[Sequence, tuple[int, ...]]:
        """The parts of the drafts that are worth verifying."""
        left = {sequence: self._account(sequence).allowance.left for sequence in drafts}
        able = {sequence: draft for sequence, draft in drafts.items() if left[sequence] > 0}
        if not able:
            return {}
        allowances = [left[sequence] for sequence in able]
        lengths = self._lengths.choose(
            decoding, list(able.values()), room, allowances, only_asks=only_asks
        )
        return {
            sequence: draft.cut(length)
            for (sequence, draft), length in zip(able.items(), lengths, strict=True)
            if length
        }

    def _ask(
        self, model: Drafter, sequences: list[Sequence], decoding: int, room: int
    ) -> dict[Sequence, Draft]:
        """Drafts of the model for those sequences for which they are expected to pay."""
        able = [s for s in sequences if self._account(s).allowance.left > 0][: max(room, 0)]
        chances = [model.chance(sequence) for sequence in able]
        depth, gain = self._depth(model, decoding, chances, room)
        for sequence in able:
            self._account(sequence).asks = depth > 0
        saving = (1 - 1 / gain) * self._costs.seconds(decoding)
        if not depth:
            # It may be better at what comes than at what was; but not where even that is no help.
            able = [s for s in able if self._account(s).backoff.is_due(only_asks=False)]
            hoped, gain = self._depth(model, decoding, [_HOPE] * len(able), room)
            saving = _ODDS * (1 - 1 / gain) * self._costs.seconds(decoding)
            depth = min(hoped, _TRIAL)
        if not able or not depth:
            return {}
        depth = min(depth, *(self._most(sequence, room) for sequence in able))
        ready = self._up_to_date(model, able, saving)
        began = time.monotonic()
        drafts = model.draft(ready, depth) if ready else {}
        self._drafting_seconds, self._asked = time.monotonic() - began, ready
        return drafts

    def _depth(
        self, model: Drafter, decoding: int, chances: list[float], room: int
    ) -> tuple[int, float]:
        """See `DraftLength.choose_depth`."""
        if not chances:
            return 0, 1.0
        count = len(chances)
        return self._lengths.choose_depth(
            decoding, chances, room, lambda depth: model.seconds(count, depth)
        )

    def _up_to_date(
        self, model: Drafter, sequences: list[Sequence], saving: float
    ) -> list[Sequence]:
        """The sequences for which the model can draft now.

        One of the others is prefilled for a short pause, if that is expected to pay.
        """
        ready: list[Sequence] = []
        prefills = False
        for sequence in sequences:
            lag = model.lag(sequence)
            if lag > SHORT_LAG:
                limit = sequence.max_tokens
                rest = limit - sequence.num_generated if limit is not None else _USUAL_REST
                gain = saving * min(rest, _USUAL_REST)
                if prefills or model.prefill_seconds(lag) * _WORTH_PREFILL > gain:
                    continue
                prefills = True
            if model.catch_up(sequence):
                ready.append(sequence)
        return ready

    def _most(self, sequence: Sequence, room: int) -> int:
        """The most draft tokens that could all be accepted, before one of the sampler's own."""
        most = min(room, self._context - len(sequence.token_ids) - 1)
        for end in (sequence.max_tokens, sequence.pauses_at):
            if end is not None:
                most = min(most, end - sequence.num_generated - 1)
        return max(0, most)

    def _account(self, sequence: Sequence) -> _Account:
        account = self._accounts.get(sequence)
        if account is None:
            account = self._accounts[sequence] = _Account()
        return account
