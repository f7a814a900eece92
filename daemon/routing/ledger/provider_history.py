"""Speed and cost of the latest answers of each provider's model, from the ledger."""

from __future__ import annotations

import threading
from collections import defaultdict, deque

from ingle.backends.remote.receipt import Outcome

from ...client.routing_types import AnswerCost
from .egress_ledger import Ledger
from .ledger_entries import LedgerEntry

KEPT = 32
"""Answers of each model that count."""


class ProviderHistory:
    """The latest complete answers by `provider/model`; thread-safe, and the first call reads the
    ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        ledger.on_settled = self._settled
        self._lock = threading.Lock()
        self._answers: dict[str, deque[LedgerEntry]] | None = None

    def costs(self) -> list[AnswerCost]:
        """Return the cost of the latest answers whose tokens and price are known; blocks."""
        found: list[AnswerCost] = []
        for name, answers in sorted(self._read().items()):
            currency = answers[-1].currency if answers else ""
            known = [e for e in answers if e.cost is not None and e.currency == currency]
            if tokens := sum(map(_tokens, known)):
                cost = sum(each.cost or 0.0 for each in known)
                found.append(AnswerCost.of(name, currency, tokens, cost, remote=True))
        return found

    def seconds(self, name: str, tokens: int) -> tuple[float, float] | None:
        """Return the typical seconds to the first and the last token of an answer with this number
        of tokens; None if none was measured; blocks.
        """
        from statistics import median  # takes a millisecond of the daemon's start

        answers = [e for e in self._read().get(name, ()) if e.first_seconds is not None]
        if not answers:
            return None
        first = median(each.first_seconds or 0.0 for each in answers)
        spans = [
            ((each.seconds or 0.0) - (each.first_seconds or 0.0), each.completion_tokens)
            for each in answers
        ]
        rates = [span / count for span, count in spans if count]
        rest = median(rates) * tokens if rates else median(span for span, _ in spans)
        return first, first + rest

    def answer_tokens(self, name: str) -> int | None:
        """Return the median number of tokens of its answers; None if not known; blocks."""
        from statistics import median

        counts = [e.completion_tokens for e in self._read().get(name, ()) if e.completion_tokens]
        return round(median(counts)) if counts else None

    def _settled(self, entry: LedgerEntry) -> None:
        with self._lock:
            if self._answers is not None:
                _add(self._answers, entry)

    def _read(self) -> dict[str, list[LedgerEntry]]:
        with self._lock:
            if self._answers is None:
                found: dict[str, deque[LedgerEntry]] = defaultdict(lambda: deque(maxlen=KEPT))
                for path in self._ledger.files()[-2:]:  # a month may have just begun
                    for entry in self._ledger.entries(path.stem):
                        _add(found, entry)
                self._answers = found
            return {name: list(answers) for name, answers in self._answers.items()}


def _add(answers: dict[str, deque[LedgerEntry]], entry: LedgerEntry) -> None:
    """Add a complete answer that is not there yet: it may be read and added at once."""
    kept = answers[f"{entry.provider}/{entry.model}"]
    if entry.outcome == Outcome.COMPLETE and all(each.seq != entry.seq for each in kept):
        kept.append(entry)


def _tokens(entry: LedgerEntry) -> int:
    return (entry.prompt_tokens or 0) + (entry.completion_tokens or 0)
