"""Checkpoints of recurrent states, to which a sequence can be truncated."""

from __future__ import annotations

from dataclasses import dataclass

from ..model_runner import SlotRunner
from ..sequence import Sequence

_BEFORE_END = 4
"""Tokens of a prompt behind its last checkpoint: what a template puts before an answer may be
missing from the next turn's prompt, or be another."""
_SPACING = 1024
_MEMORY = 256 * 2**20


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a slot when it held `length` tokens."""

    length: int
    state: bytes


class Checkpoints:
    """Takes checkpoints of prompts during prefill, and finds the longest one of a prefix.

    A recurrent layer has one state for all tokens before, so that a sequence can neither be
    truncated nor shared at an arbitrary token. If the checkpoints take more than 256 MiB, the least
    recently used ones are dropped.
    """

    def __init__(self, runner: SlotRunner, *, memory: int = _MEMORY) -> None:
        """Takes no checkpoints for models that can be truncated at any token."""
        self._runner = runner
        self._memory = memory
        self._used = 0
        self._taken: dict[tuple[int, int], Checkpoint] = {}  # by slot and length, oldest first

    def until_next(self, sequence: Sequence) -> int:
        """Pending tokens up to the next checkpoint, or all where there is none to come."""
        if self._runner.can_fork:
            return sequence.num_pending
        done = sequence.num_computed
        last = sequence.prompt_length - _BEFORE_END
        if done >= last:
            return sequence.num_pending
        return min(last, (done // _SPACING + 1) * _SPACING) - done

    def take(self, sequence: Sequence) -> None:
        """Take a checkpoint where the sequence has come to one."""
        length = sequence.num_computed
        last = sequence.prompt_length - _BEFORE_END
        if self._runner.can_fork or not 0 < length <= last:
            return
        if length == last or length % _SPACING == 0:
            state = self._runner.checkpoint(sequence.slot)
            self._put(sequence.slot, Checkpoint(length, state))

    def find(self, slot: int, most: int) -> Checkpoint | None:
        """The longest checkpoint of the slot with at most so many tokens."""
        lengths = [length for index, length in self._taken if index == slot and length <= most]
        return self._taken[slot, max(lengths)] if lengths else None

    def share(self, source: int, target: int, length: int) -> None:
        """Let `target`, which begins with `length` tokens of `source`, have their checkpoints."""
        for (slot, _), checkpoint in list(self._taken.items()):
            if slot == source and checkpoint.length <= length:
                self._put(slot, self._remove(slot, checkpoint.length))  # used just now
                self._put(target, checkpoint)

    def drop(self, slot: int) -> None:
        """Forget the slot's checkpoints."""
        for index, length in list(self._taken):
            if index == slot:
                self._remove(index, length)

    def _put(self, slot: int, checkpoint: Checkpoint) -> None:
        self._taken[slot, checkpoint.length] = checkpoint
        self._used += len(checkpoint.state)
        while self._used > self._memory:
            self._remove(*next(iter(self._taken)))

    def _remove(self, slot: int, length: int) -> Checkpoint:
        checkpoint = self._taken.pop((slot, length))
        self._used -= len(checkpoint.state)
        return checkpoint
