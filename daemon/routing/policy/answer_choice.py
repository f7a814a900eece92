"""Where a request is answered if the policy allows both sides: weighed by cost or speed."""

from __future__ import annotations

import msgspec

from .policy_tables import Prefer

REMOTE_PREFERENCES = ("quality", "cloud")
"""Preferences for a provider's model without weighing; `cloud` is the former name of `quality`, and
`local` that of `privacy`.
"""


class AnswerEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Expected seconds to the first and the last token of an answer, and its cost; None if not
    known.

    `assumed`: its speed was not measured yet.
    """

    first: float | None = None
    last: float | None = None
    cost: float | None = None
    assumed: bool = False


class AnswerEstimates(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides of a choice; `name` is that of the remote model, costs are in `currency`."""

    local: AnswerEstimate
    remote: AnswerEstimate
    name: str = ""
    currency: str = ""

    def compare(self, prefer: Prefer) -> str:
        """Return both sides and the preference in one sentence."""
        sides = [self._in_words(side) for side in (self.local, self.remote)]
        return f"Local: {sides[0]}; {self.name}: {sides[1]}; prefer = {prefer}."

    def _in_words(self, side: AnswerEstimate) -> str:
        if side.first is None or side.last is None:
            time = "speed not measured yet"
        else:
            time = f"first token in {_short(side.first)} s, last in {_short(side.last)} s"
            time += " (assumed)" if side.assumed else ""
        cost = "unknown cost" if side.cost is None else _money(side.cost, self.currency)
        return f"{time}, {cost}"


def is_weighed(prefer: Prefer) -> bool:
    """Whether the preference compares both sides."""
    return prefer in ("cost", "speed")


def prefers_remote(prefer: Prefer, estimates: AnswerEstimates | None) -> bool:
    """Whether the preference is for a provider's model; not if what it weighs is not known.

    Equal costs are decided by speed, and equal speeds by cost; if both are equal, it stays.
    """
    if not is_weighed(prefer):
        return prefer in REMOTE_PREFERENCES
    if estimates is None:
        return False
    pairs = [
        (estimates.local.cost, estimates.remote.cost),
        (estimates.local.last, estimates.remote.last),
    ]
    for local, remote in pairs if prefer == "cost" else reversed(pairs):
        if local is None or remote is None:
            return False
        if local != remote:
            return remote < local
    return False


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"


def _money(cost: float, currency: str) -> str:
    if currency in ("USD", "EUR"):
        return f"{_significant(cost * 100)} ct"
    return f"{_significant(cost)} {currency}".rstrip()


def _significant(number: float) -> str:
    """Return the number with two significant digits, without an exponent."""
    return f"{number:.2g}" if number == 0 or number >= 1e-4 else f"{number:.8f}".rstrip("0")
