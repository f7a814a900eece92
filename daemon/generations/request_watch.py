"""Shows requests to the owner while one watches: nothing is kept otherwise, or of private ones."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingle.backends.base.errors import BackendError
from ingle.backends.base.events import Event, EventSink, Finished, Started, ToolCallStarted
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest

from ..client.watch_types import PrefixBreak, WatchedRequest
from ..error_status import describe
from ..errors import NotFound
from ..event_hub import EventHub, Subscription
from ..routing.route_header import current_route_record

if TYPE_CHECKING:
    from ..lifecycle.lease import Lease

MOST_PROMPTS = 32
MOST_CHARACTERS = 16 * 2**20
"""Of all prompts together."""
RENDER_SECONDS = 5.0
_SHOWN = 60
_REMOTE = "remote"


@dataclass
class _Seen:
    """What is known of a request that runs."""

    started: float
    slimmed: int
    rendering: asyncio.Task[str] | None = None
    calls: list[str] = field(default_factory=list[str])
    prompt_tokens: int = 0
    cached_tokens: int = 0
    ends: list[Finished] = field(default_factory=list[Finished])
    error: str = ""
    outcome: str = "cancelled"


@dataclass(frozen=True)
class _Prompt:
    sender: tuple[str, str]
    """The client and the model."""

    text: str


class RequestWatch:
    """Runs requests, and reports them to those who watch; for the event loop only."""

    def __init__(self) -> None:
        self._hub = EventHub()
        self._hub.on_listeners = self._listeners_changed
        self._prompts: OrderedDict[str, _Prompt] = OrderedDict()

    @contextmanager
    def watching(self) -> Generator[Subscription]:
        """Watch while the context lasts; the prompts are forgotten with the last watcher."""
        with self._hub.subscribe() as subscription:
            yield subscription

    def prompt(self, request: str) -> str:
        """Return the prompt of a request of this id; raises `NotFound`."""
        found = self._prompts.get(request)
        if found is None:
            raise NotFound(
                "No prompt of this id is kept.",
                hint=f"Prompts are kept of the last {MOST_PROMPTS} requests that a model on this "
                "machine began to answer.",
            )
        return found.text

    def close(self) -> None:
        """End all streams."""
        self._hub.close()

    async def run(
        self, lease: Lease, request: GenerateRequest, sink: EventSink, *, slimmed: int = 0
    ) -> None:
        """See `RequestBackend.run`; `slimmed` characters of the request were left out."""
        if not self._hub.listeners or request.private:
            await lease.backend.run(request, sink)
            return
        seen = _Seen(time.time(), slimmed)

        def take(events: list[Event]) -> None:
            for event in events:
                self._note(seen, lease, request, event)
            sink(events)

        try:
            await lease.backend.run(request, take)
            seen.outcome = "stop"
        except Exception as error:
            seen.outcome, seen.error = "failed", describe(error).message
            raise
        finally:
            # The lease holds the model, which renders the prompt while it answers.
            await self._report(seen, lease, request)

    def _note(self, seen: _Seen, lease: Lease, request: GenerateRequest, event: Event) -> None:
        match event:
            case Started():
                if seen.rendering is None and lease.info.engine != _REMOTE:
                    seen.rendering = asyncio.create_task(_rendered(lease, request))
            case ToolCallStarted():
                seen.calls.append(event.name)
            case Finished():
                seen.ends.append(event)
            case _:
                return
        if isinstance(event, Started | Finished):
            seen.prompt_tokens += event.prompt_tokens
            seen.cached_tokens += event.cached_tokens

    async def _report(self, seen: _Seen, lease: Lease, request: GenerateRequest) -> None:
        text = ""
        if seen.rendering is not None:
            await asyncio.wait({seen.rendering}, timeout=RENDER_SECONDS)
            text = seen.rendering.result() if seen.rendering.done() else ""
            seen.rendering.cancel()
        record = current_route_record.get()
        client = (record.agent if record is not None else "") or request.client
        prefix = self._keep(request.id, _Prompt((client, lease.model.name), text)) if text else None
        ends = seen.ends
        report = WatchedRequest(
            id=request.id,
            time=seen.started,
            client=client,
            path=record.path if record is not None else "",
            model=lease.model.name,
            messages=len(request.messages or ()),
            tools=len(request.tools),
            slimmed=seen.slimmed,
            prompt_tokens=seen.prompt_tokens,
            cached_tokens=seen.cached_tokens,
            completion_tokens=sum(end.completion_tokens for end in ends),
            seconds=time.time() - seen.started,
            queue_seconds=max((end.queue_seconds for end in ends), default=0.0),
            prompt_seconds=max((end.prompt_seconds for end in ends), default=0.0),
            decode_seconds=max((end.decode_seconds for end in ends), default=0.0),
            calls=seen.calls,
            outcome=ends[0].reason if ends and seen.outcome == "stop" else seen.outcome,
            error=seen.error,
            prefix=prefix,
        )
        self._hub.publish("request", report)

    def _keep(self, request: str, prompt: _Prompt) -> PrefixBreak | None:
        """Keep a prompt while one watches, and return where it left the client's earlier ones."""
        earlier = [one.text for one in self._prompts.values() if one.sender == prompt.sender]
        if self._hub.listeners:
            self._prompts[request] = prompt
        while len(self._prompts) > MOST_PROMPTS or (
            sum(len(one.text) for one in self._prompts.values()) > MOST_CHARACTERS
        ):
            self._prompts.popitem(last=False)
        return prefix_break(earlier, prompt.text)

    def _listeners_changed(self) -> None:
        if not self._hub.listeners:
            self._prompts.clear()


async def _rendered(lease: Lease, request: GenerateRequest) -> str:
    """Return the text of a request's prompt; empty if it cannot be rendered."""
    try:
        asked = TokenizeRequest(id=f"{request.id}-watch", generate=request)
        return (await lease.backend.tokenize(asked)).text or ""
    except BackendError:
        return ""


def prefix_break(earlier: list[str], text: str) -> PrefixBreak | None:
    """Return where the text leaves the earlier one that it shares most with; None if it begins with
    that one.
    """
    shared = [(_common(one, text), one) for one in earlier]
    if not shared:
        return None
    at, before = max(shared, key=lambda one: one[0])
    if at == len(before):
        return None
    return PrefixBreak(
        at=len(text[:at].encode("utf-8", "replace")),
        of=len(text.encode("utf-8", "replace")),
        before=before[at : at + _SHOWN],
        after=text[at : at + _SHOWN],
    )


def _common(one: str, other: str) -> int:
    """Return the number of first characters that two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # comparing slices is faster than comparing characters
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
