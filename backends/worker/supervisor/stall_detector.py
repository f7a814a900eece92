"""Decides every few seconds whether a worker with running requests is stalled."""

from __future__ import annotations

BUSY_SHARE = 1 / 150
"""The share of a processor from which on a worker that sends nothing counts as computing."""

LONGEST_STEP = 1800.0
"""Most seconds of a step while the model's speed is not known."""

SHORTEST_BOUND = 120.0
PATIENCE = 20.0
"""How many times as long as the measured speed suggests a step may take."""

OVERSLEPT = 2.0
"""A check that comes later than this many intervals after the last one decides nothing."""


def longest_step(batch: int, prompt_rate: float) -> float:
    """Return the seconds after which a step is stuck; the longest is the prefill of a whole batch.

    `prompt_rate` is in tokens a second, 0 if not measured.
    """
    if prompt_rate <= 0:
        return LONGEST_STEP
    return min(LONGEST_STEP, max(SHORTEST_BOUND, PATIENCE * batch / prompt_rate))


class StepWatch:
    """Judges one worker by its messages, its CPU time and how long it waited for a processor."""

    def __init__(self, interval: float, now: float, computed: float, waited: float) -> None:
        """`interval` is the time between two checks, the others those of `look` so far."""
        self._interval = interval
        self._looked_at = self._asked_at = now
        self._used = computed + waited
        self._waited = waited

    def look(
        self, now: float, heard_at: float, computed: float, waited: float, bound: float
    ) -> str | None:
        """Return why it is stalled, as a sentence; None if it is not; all times are in seconds.

        `heard_at` is the time of its last message; it sends one between two steps, of which each
        takes at most `bound` besides what it `waited` for a processor. A check that comes late,
        since the daemon was stopped or the machine busy, decides nothing.
        """
        late = now - self._looked_at > OVERSLEPT * self._interval
        worked = computed + waited - self._used >= BUSY_SHARE * self._interval
        self._looked_at, self._used = now, computed + waited
        if late or heard_at >= self._asked_at:
            self._asked_at, self._waited = now, waited
            return None
        if not worked:
            return "The model's process stopped answering, and was ended."
        took = now - self._asked_at - (waited - self._waited)
        if took >= bound:
            return (
                f"A step of the model did not end within {took:.0f} seconds, "
                "and its process was ended."
            )
        return None
