"""Several tokens a step where that is quicker: whose guesses, and how many."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..batch import Batch
from ..sequence import Sequence
from .draft import Draft
from .draft_length import DraftLength
from .model_drafter import SHORT_LAG, ModelDrafter
from .ngram_drafter import NgramDrafter
from .step_costs import StepCosts

_FIRST_WINDOW, _LARGEST_WINDOW = 4, 64
_USUAL_REST = 256
"""Tokens an answer is taken to still have where nobody said how long it may get."""
_WORTH_READING = 2.0
_HOPE, _ODDS = 0.9, 0.1
"""How good a model may turn out to be that was not good enough so far, and how likely that is."""
_TRIAL = 2
_FIRST_WAIT = 32
_LONGEST_WAIT = 2048
_AT_FIRST = 0.6
_MOST = 6.0
_SHARE = 0.015
_RIGHT, _WRONG = 0.1, 0.3


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
    """What is known of one sequence; `wait` steps pass before a model guesses for it again.

    `window` bounds its drafts: it doubles while they are wholly right, as one unlucky long draft
    costs more than several steps of caution. `guess` is what was looked up for position `guess_at`.
    """

    allowance: DraftLossBudget = field(default_factory=DraftLossBudget)
    window: int = _FIRST_WINDOW
    guess: int = -1
    guess_at: int = 0
    asks: bool = False
    wait: int = 0
    interval: int = _FIRST_WAIT


class AdaptiveSpeculator:
    """The speculator of a model: copies where the text repeats itself, else asks a smaller model.

    Looking up is free, so it comes first. Both only propose; how much of it a step verifies is
    decided by what the step is expected to yield and to take, and for each sequence an account
    bounds what wrong guesses may lose. Nothing here changes a token: see `ModelRunner.collect`.
    """

    def __init__(
        self,
        *,
        context: int,
        costs: StepCosts | None = None,
        ngrams: NgramDrafter | None = None,
        model: ModelDrafter | None = None,
    ) -> None:
        """`costs` is what is known of the steps of the model that verifies."""
        self._context = context
        self._costs = costs or StepCosts()
        self._lengths = DraftLength(self._costs)
        self._ngrams = ngrams
        self._model = model
        self._accounts: dict[Sequence, _Account] = {}
        self._accepted: dict[Sequence, int] = {}
        self._asked: list[Sequence] = []
        self._proposing = 0.0
        self._guessing = 0.0

    def propose(self, decoding: list[Sequence], room: int) -> dict[Sequence, tuple[int, ...]]:
        """Guesses for some of the sequences, at most `room` tokens in all."""
        began = time.monotonic()
        self._guessing, self._asked = 0.0, []
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
        """Whether guesses may come that are worth waiting for the tokens in flight.

        That is where there are some already from here: those go on behind the next tokens as well,
        or were wrong.
        """
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
        return depth > 0 or any(self._tries_again(s, only_asks=True) for s in able)

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn from a step that is booked, and how long it took, proposing included."""
        seconds -= self._proposing
        self._proposing = 0.0
        asked, self._asked = self._asked, []
        if any(chunk.count != 1 or not chunk.samples for chunk in batch.chunks):
            return
        self._costs.observe(batch.num_tokens, seconds)
        decoding = len(batch.chunks)
        guesses = batch.num_tokens - decoding
        plain = self._costs.seconds(decoding)
        # In units of what one token of one sequence takes without drafts.
        verifying = (self._costs.seconds(batch.num_tokens) / plain - 1) * decoding
        guessing = self._guessing / plain * decoding / max(len(asked), 1)
        for chunk in batch.chunks:
            account = self._accounts.get(chunk.sequence)
            if account is None:
                continue
            account.allowance.accrue()
            if chunk.sequence in asked:
                account.allowance.settle(saved=0, spent=guessing)
            if chunk.drafts and (before := self._accepted.get(chunk.sequence)) is not None:
                saved = chunk.sequence.accepted_tokens - before
                spent = verifying * len(chunk.drafts) / guesses
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
        """What the n-grams say, where it is as good a guess as the model's."""
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
        """See what became of the guess before this one, verified or not."""
        known = sequence.token_ids
        if account.guess >= 0 and account.guess_at < len(known):
            account.allowance.witness(right=known[account.guess_at] == account.guess)
        account.guess = draft.tokens[0] if draft.tokens else -1
        account.guess_at = len(known)

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
        self, model: ModelDrafter, sequences: list[Sequence], decoding: int, room: int
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
            able = [sequence for sequence in able if self._tries_again(sequence)]
            hoped, gain = self._depth(model, decoding, [_HOPE] * len(able), room)
            saving = _ODDS * (1 - 1 / gain) * self._costs.seconds(decoding)
            depth = min(hoped, _TRIAL)
        if not able or not depth:
            return {}
        depth = min(depth, *(self._most(sequence, room) for sequence in able))
        ready = self._up_to_date(model, able, saving)
        began = time.monotonic()
        drafts = model.draft(ready, depth) if ready else {}
        self._guessing, self._asked = time.monotonic() - began, ready
        return drafts

    def _depth(
        self, model: ModelDrafter, decoding: int, chances: list[float], room: int
    ) -> tuple[int, float]:
        """See `DraftLength.choose_depth`."""
        if not chances:
            return 0, 1.0
        count = len(chances)
        return self._lengths.choose_depth(
            decoding, chances, room, lambda depth: model.seconds(count, depth)
        )

    def _up_to_date(
        self, model: ModelDrafter, sequences: list[Sequence], saving: float
    ) -> list[Sequence]:
        """Those for which the model can guess now.

        One of the others is read on where that is expected to be worth it, a short pause a step.
        """
        ready: list[Sequence] = []
        read = False
        for sequence in sequences:
            lag = model.lag(sequence)
            if lag > SHORT_LAG:
                limit = sequence.max_tokens
                rest = limit - sequence.num_generated if limit is not None else _USUAL_REST
                gain = saving * min(rest, _USUAL_REST)
                if read or model.reading_seconds(lag) * _WORTH_READING > gain:
                    continue
                read = True
            if model.catch_up(sequence):
                ready.append(sequence)
        return ready

    def _tries_again(self, sequence: Sequence, *, only_asks: bool = False) -> bool:
        """Whether to see if the model has become better at this sequence; ever more rarely."""
        account = self._account(sequence)
        account.wait -= 1
        if account.wait > 0 or only_asks:
            return account.wait <= 0
        account.interval = min(2 * account.interval, _LONGEST_WAIT)
        account.wait = account.interval
        return True

    def _most(self, sequence: Sequence, room: int) -> int:
        """Guesses that could all become tokens: behind them comes one of the sampler's own."""
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
