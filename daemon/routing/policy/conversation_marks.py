"""Marks of sensitive conversations, read and written off the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ingle.backends.base.requests import GenerateRequest

from ..detectors.finding import Sensitivity
from ..inspection.request_inspector import InspectedRequest
from .conversation_taint import TaintStore, marks_of, request_traces

log = logging.getLogger("ingle.daemon")


class ConversationMarks:
    """The marks in a taint store; text derived from a marked conversation stays local too."""

    def __init__(self, store: TaintStore) -> None:
        self._store = store

    async def mark(
        self,
        requests: Sequence[GenerateRequest],
        sensitivity: Sensitivity,
        *,
        places: Sequence[str] = ("messages[0]",),
        private: bool = False,
    ) -> None:
        """Mark the conversations of the requests as sensitive, by the text at `places`."""
        traces = [t for request in requests for t in marks_of(request, places)]
        await self.write(traces, sensitivity, private=private)

    async def write(
        self, traces: Sequence[bytes], sensitivity: Sensitivity, *, private: bool
    ) -> None:
        """Mark these traces of a conversation; a failure is logged."""
        try:
            await asyncio.to_thread(self._store.mark, traces, sensitivity, private=private)
        except Exception as error:
            # The request's own content is found again; only text derived from it may not be.
            log.warning(
                "A conversation could not be marked as sensitive (%s)", type(error).__name__
            )

    async def strictest(self, inspected: Sequence[InspectedRequest]) -> Sensitivity | None:
        """Return the strictest mark of the conversations; `UNINSPECTABLE` if it cannot be read."""
        traces = [t for one in inspected for t in request_traces(one.request, one.parts)]
        try:
            return await asyncio.to_thread(self._store.strictest, traces)
        except Exception as error:
            log.warning(
                "Marks of sensitive conversations cannot be read (%s)", type(error).__name__
            )
            return Sensitivity.UNINSPECTABLE
