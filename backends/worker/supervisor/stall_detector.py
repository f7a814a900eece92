"""Whether a worker that is waited for still gets anywhere: decisions, made every few seconds."""

from __future__ import annotations

BUSY_SECONDS = 0.1
"""CPU time within one look, from which on a silent worker counts as computing."""

LONGEST_STEP = 1800.0
"""Seconds that one step may take while nothing is known of the model's speed."""

SHORTEST_BOUND = 120.0
PATIENCE = 20.0
"""How many times as long as its measured speed says a step may take."""

OVERSLEPT = 2.0
"""How many times as late as it should come a look may be, and still say anything."""


def longest_step(batch: int, prompt_rate: float) -> float:
    """Seconds after which a step is stuck; `prompt_rate` is tokens a second, 0 where not measured.

    The longest step reads a whole batch of a prompt.
    """
    if prompt_rate <= 0:
        return LONGEST_STEP
    return min(LONGEST_STEP, max(SHORTEST_BOUND, PATIENCE * batch / prompt_rate))


class StepWatch:
    """Judges one worker by what it says and what it computes."""

    def __init__(self, interval: float) -> None:
        """`interval` is how many seconds two looks are apart."""
        self._interval = interval
        self._looked_at: float | None = None
        self._asked_at = 0.0
        self._computed = 0.0

    def begin(self, now: float, computed: float) -> None:
        """It is waited for from now on; `computed` is its CPU time so far, in seconds."""
        self._looked_at = self._asked_at = now
        self._computed = computed

    def look(self, now: float, heard_at: float, computed: float, bound: float) -> str | None:
        """What is wrong with it, as a sentence; None where it may go on.

        `heard_at` is when it last said anything, which it does between two steps of at most `bound`
        seconds. Whoever could not look in time, as the daemon was stopped or the machine
        busy, knows nothing of the time between.
        """
        assert self._looked_at is not None
        late = now - self._looked_at > OVERSLEPT * self._interval
        worked = computed - self._computed >= BUSY_SECONDS
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
