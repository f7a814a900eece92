"""How much time a sequence's drafts may still lose."""

from __future__ import annotations

_AT_FIRST = 0.6
_MOST = 6.0
_SHARE = 0.015
_RIGHT, _WRONG = 0.1, 0.3


class LossAllowance:
    """An account that keeps wrong drafts from costing more than a small share of the time.

    In units of what one token of one sequence takes without drafts: each step pays in a little, and
    each right guess the token it saved; verifying takes out what it cost. What was saved long ago
    is no reason to lose now, so the account is bounded.
    """

    def __init__(self) -> None:
        self.left = _AT_FIRST

    def accrue(self) -> None:
        """A step passed."""
        self.left = min(self.left + _SHARE, _MOST)

    def settle(self, *, saved: float, spent: float) -> None:
        """Book what drafts saved and what they cost."""
        self.left = max(min(self.left + saved - spent, _MOST), -_MOST)

    def witness(self, *, right: bool) -> None:
        """Forgive a little for a guess that was not verified and would have been right."""
        if self.left < _AT_FIRST:
            change = _RIGHT if right else -_WRONG
            self.left = max(min(self.left + change, _AT_FIRST), -_MOST)
