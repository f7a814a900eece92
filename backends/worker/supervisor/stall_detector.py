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
    """Judges one worker by its messages and its CPU time."""

    def __init__(self, interval: float, now: float, computed: float) -> None:
        """`interval` is the time between two checks, `computed` its CPU time so far, in seconds."""
        self._interval = interval
        self._looked_at = self._asked_at = now
        self._computed = computed

    def look(self, now: float, heard_at: float, computed: float, bound: float) -> str | None:
        """Return why it is stalled, as a sentence; None if it is not.

        `heard_at` is the time of its last message; it sends one between two steps of at most
        `bound` seconds. A check that comes late, since the daemon was stopped or the machine busy,
        decides nothing.
        """
        late = now - self._looked_at > OVERSLEPT * self._interval
        worked = computed - self._computed >= BUSY_SHARE * self._interval
        self._looked_at, self._computed = now, computed
        if late or heard_at >= self._asked_at:
            self._asked_at = now
            return None
        if not worked:
            return "The model's process stopped answering, and was ended."
        if now - self._asked_at >= bound:
            return (
                f"A step of the model did not end within {now - self._asked_at:.0f} seconds, "
                "and its process was ended."
            )
        return None
