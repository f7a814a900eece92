"""Escalation to a cloud model: uncertainty of the local answer, and value of the task."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ingle.backends.base.events import Delta, Event, Finished
from ingle.backends.base.requests import GenerateRequest

from .policy.policy_tables import RouteDefinition

FEWEST_TOKENS = 4
"""With fewer tokens, the mean is not meaningful."""

_CODE = re.compile(r"```|^(?: {4}|\t)\S.*\n(?: {4}|\t)\S", re.MULTILINE)
_MATHS = re.compile(r"\\(?:frac|sum|int|sqrt|begin)\b|\$\$|[∑∫√∂∇≤≥]|\bprove\b", re.IGNORECASE)


class MeanSurprisal:
    """Mean surprisal of an answer's first tokens, in nats per token.

    It is the cross-entropy of the generated text, which needs only the log-probabilities of its
    tokens.
    """

    def __init__(self, tokens: int) -> None:
        self._wanted = tokens
        self._seen = 0
        self._nats = 0.0
        self._ended = False

    @property
    def is_full(self) -> bool:
        """Whether it has as many tokens as requested, or the answer has ended."""
        return self._seen >= self._wanted or self._ended

    @property
    def mean(self) -> float | None:
        """The mean in nats per token; None if there are too few tokens."""
        return self._nats / self._seen if self._seen >= FEWEST_TOKENS else None

    def take(self, events: Iterable[Event]) -> None:
        """Add the tokens of some events."""
        for event in events:
            if isinstance(event, Delta):
                for token in event.logprobs or ():
                    self._seen += 1
                    self._nats -= max(token.logprob, -30.0)
            elif isinstance(event, Finished):
                self._ended = True


def high_value_reason(request: GenerateRequest, route: RouteDefinition) -> str | None:
    """Return why the task is worth a better answer, as the end of a sentence; None if it is not.

    Only the last message of the user counts, or the prompt.
    """
    if request.reasoning.effort in ("high", "xhigh", "max"):
        return "it asks for much reasoning"
    text = _task(request)
    lowered = text.lower()
    for word in route.valuable_words:
        if word.lower() in lowered:
            return f"it says '{word}'"
    if len(text) >= route.valuable_length:
        return f"it is {len(text)} characters long"
    if _CODE.search(text):
        return "it contains code"
    return "it contains mathematics" if _MATHS.search(text) else None


def _task(request: GenerateRequest) -> str:
    if isinstance(request.prompt, str):
        return request.prompt
    said = [m.content for m in request.messages or [] if m.role == "user"]
    return said[-1] if said else ""
