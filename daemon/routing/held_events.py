"""Event sinks that hold back or copy the first events of a routed answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import structs

from ingle.backends.base.events import (
    Delta,
    Event,
    EventSink,
    PromptAdvanced,
    Started,
)

from .escalation import MeanSurprisal
from .router import OutboundRequest

JUDGED_SECONDS = 1.0
"""Longest time in seconds, from the first token, that an answer is held back for the uncertainty
check.
"""


class FirstEvents:
    """Holds `Started` back until the first piece of the answer: until then a fallback is
    possible.
    """

    def __init__(
        self,
        outbound: OutboundRequest,
        sink: EventSink,
        on_first: Callable[[OutboundRequest], None],
    ) -> None:
        self.begun = False
        self._outbound = outbound
        self._sink = sink
        self._on_first = on_first
        self._held: list[Event] = []

    def take(self, events: list[Event]) -> None:
        """Deliver the events, or hold them back before the first piece."""
        events = self._outbound.restored(events)
        if not self.begun:
            self._held += events
            if all(isinstance(event, Started | PromptAdvanced) for event in self._held):
                return
            self.begun = True
            self._on_first(self._outbound)
            events, self._held = self._held, []
        if events:
            self._sink(events)

    def end(self) -> None:
        """Deliver everything that is still held back; the answer is complete."""
        if self._held:
            self._sink(self._held)


class HeldBeginning:
    """Holds back the first events of an answer until it has been judged."""

    def __init__(self, tokens: int, sink: EventSink, *, wants_logprobs: bool) -> None:
        self.surprise = MeanSurprisal(tokens)
        self.judged = asyncio.Event()
        """Set once there are enough tokens to judge by, or the time is over."""
        self._sink = sink
        self._wants_logprobs = wants_logprobs
        self._held: list[Event] | None = []
        self._timer: asyncio.TimerHandle | None = None

    def take(self, events: list[Event]) -> None:
        """Deliver the events, or hold them back until the answer is judged."""
        if self._held is None:
            self._sink(self._plain(events))
            return
        self._held += events
        self.surprise.take(events)
        begun = not all(isinstance(event, Started | PromptAdvanced) for event in events)
        if self._timer is None and begun:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(JUDGED_SECONDS, self.judged.set)
        if self.surprise.is_full:
            self.judged.set()

    def release(self) -> None:
        """Deliver what was held back, and all later events at once."""
        held, self._held = self._held, None
        if held:
            self._sink(self._plain(held))

    def end(self) -> None:
        """Stop holding back: the answer has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _plain(self, events: list[Event]) -> list[Event]:
        if self._wants_logprobs:
            return events
        return [
            structs.replace(event, logprobs=None, token_bytes=None)
            if isinstance(event, Delta)
            else event
            for event in events
        ]
