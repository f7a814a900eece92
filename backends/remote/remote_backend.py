"""The backend that sends one cleared request to one provider, and records what was sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import reduce
from operator import add

from ..base.errors import RequestRejected
from ..base.events import Embedded, Event, EventSink, Reranked, Started, Tokenized
from ..base.model_info import ModelInfo
from ..base.requests import EmbedRequest, GenerateRequest, RerankRequest, TokenizeRequest
from .clearance import Clearance, request_digest
from .errors import NotCleared, ProviderMisbehaved, ProviderRefused, ProviderUnreachable
from .http_client import HttpResponse, exchange
from .metered_connection import CouldNotConnect, Meter
from .provider_refusal import refusal_from, streamed_error
from .providers import Provider, ProviderKind
from .receipt import Outcome, Receipt
from .retry_backoff import LONGEST_WAIT, RETRIED, backoff, retry_after
from .sse_reader import SseReader
from .wire_formats.anthropic_wire import AnthropicWire
from .wire_formats.openai_wire import OpenAIWire
from .wire_formats.responses_wire import ResponsesWire
from .wire_formats.wire_format import LARGEST_ANSWER, AnswerReader, Wire

USER_AGENT = "ingle"
"""Sent by every installation: neither version nor system identifies a user."""

_WIRES: dict[ProviderKind, type[Wire]] = {
    ProviderKind.OPENAI: OpenAIWire,
    ProviderKind.RESPONSES: ResponsesWire,
    ProviderKind.ANTHROPIC: AnthropicWire,
}


def request_headers(kind: ProviderKind, key: str | None, *, accept: str) -> list[tuple[str, str]]:
    """Return the headers of every request to a provider of this protocol."""
    return [
        ("user-agent", USER_AGENT),
        ("accept", accept),
        ("accept-encoding", "identity"),
        ("content-type", "application/json"),
        *_WIRES[kind]().headers(key),
    ]


BeforeSend = Callable[[int], Awaitable[None]]
"""Called with the total bytes of all bodies before the first is sent; an exception cancels sending.
"""


class RemoteBackend:
    """A remote model for the one request that the clearance names."""

    def __init__(
        self,
        provider: Provider,
        model: str,
        key: str | None,
        clearance: Clearance,
        on_receipt: Callable[[Receipt], None],
        *,
        before_send: BeforeSend,
    ) -> None:
        """`on_receipt` is called once after `before_send` has returned, however the request
        ends.
        """
        if clearance.provider != provider.name or clearance.model != model:
            raise NotCleared(
                f"The request was cleared for {clearance.provider}/{clearance.model}, "
                f"not for {provider.name}/{model}."
            )
        self.provider = provider
        self.model = model
        self.clearance = clearance
        self.receipt: Receipt | None = None
        """The receipt, once the request is over."""

        self._key = key
        self._on_receipt = on_receipt
        self._before_send = before_send
        self._wire = _WIRES[provider.kind]()
        self._used = False
        self._meters: list[Meter] = []
        self._readers: list[AnswerReader] = []
        self._status = 0
        self._began = 0.0
        self._first: float | None = None

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`; raises `RemoteError`, and `NotCleared` before sending."""
        self.check(request)
        self._used = True
        bodies = [
            self._wire.body(self.provider, self.model, request, index) for index in range(request.n)
        ]
        await self._before_send(sum(map(len, bodies)))
        self._began, outcome = time.monotonic(), Outcome.FAILED
        try:
            async with asyncio.timeout(self.provider.total_timeout):
                await self._ask_all(request, bodies, sink)
            outcome = Outcome.COMPLETE
        except TimeoutError:
            raise ProviderUnreachable(
                f"The answer took longer than {self.provider.total_timeout:g} seconds."
            ) from None
        except asyncio.CancelledError:
            outcome = Outcome.CANCELLED
            raise
        except ProviderRefused:
            outcome = Outcome.REFUSED
            raise
        finally:
            self.receipt = self._receipt(time.monotonic() - self._began, outcome)
            self._on_receipt(self.receipt)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Raise `RequestRejected`: texts to embed are derived from what may be private."""
        raise _only_writes()

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Raise `RequestRejected`, as `embed` does."""
        raise _only_writes()

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Raise `RequestRejected`: providers do not return tokens."""
        raise _only_writes()

    def check(self, request: GenerateRequest) -> None:
        """Raise `NotCleared` unless this is the cleared request, not sent before."""
        if any(message.pictures or message.documents for message in request.messages or ()):
            raise NotCleared(
                "Pictures and documents are not sent to providers; nothing left this machine."
            )
        if self._used:
            raise NotCleared("A clearance can be used only once.")
        if request_digest(request) != self.clearance.digest:
            raise NotCleared(
                "The request is not the one that was cleared; nothing left this machine."
            )

    async def _ask_all(
        self, request: GenerateRequest, bodies: list[bytes], sink: EventSink
    ) -> None:
        if len(bodies) == 1:
            await self._ask(request, 0, bodies[0], sink)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for index, body in enumerate(bodies):
                    group.create_task(self._ask(request, index, body, sink))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _ask(
        self, request: GenerateRequest, index: int, body: bytes, sink: EventSink
    ) -> None:
        """Generate one sequence, retrying as long as no byte of an answer has arrived."""
        for attempt in range(self.provider.retries + 1):
            last = attempt == self.provider.retries
            try:
                wait = await self._try(request, index, body, sink, last=last)
            except CouldNotConnect:
                if last:
                    raise
                wait = backoff(attempt)
            if wait is None:
                return
            await asyncio.sleep(wait or backoff(attempt))

    async def _try(
        self, request: GenerateRequest, index: int, body: bytes, sink: EventSink, *, last: bool
    ) -> float | None:
        """Return None when it is answered, else the seconds to wait before the next try (0: the
        default).
        """
        meter = Meter()
        self._meters.append(meter)
        headers = request_headers(self.provider.kind, self._key, accept="text/event-stream")
        async with exchange(self.provider, self._wire.path, headers, body, meter) as answer:
            self._status = answer.status
            if answer.status != 200:
                wait = retry_after(answer.headers.get("retry-after", ""), time.time())
                if answer.status in RETRIED and not last and wait <= LONGEST_WAIT:
                    return wait
                raise await refusal_from(answer, self.provider, self._key)
            await self._read(request, index, answer, sink)
        return None

    async def _read(
        self, request: GenerateRequest, index: int, answer: HttpResponse, sink: EventSink
    ) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream" or "content-encoding" in answer.headers:
            raise ProviderMisbehaved("The provider did not answer with a stream of events.")
        reader = self._wire.reader(request, index)
        if not self._readers:  # one start for all sequences
            sink([Started(request.id, 0)])
        self._readers.append(reader)
        lines, size = SseReader(), 0
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                if size > LARGEST_ANSWER:
                    raise ProviderMisbehaved("The provider's answer does not end.")
                self._deliver(reader, lines.feed(chunk), sink)
                if reader.ended:
                    return
        self._deliver(reader, lines.end(), sink)
        if events := reader.close():
            sink(events)

    def _deliver(self, reader: AnswerReader, found: list[bytes], sink: EventSink) -> None:
        events: list[Event] = []
        try:
            for data in found:
                if not reader.ended:
                    events += reader.feed(data)
        except ProviderRefused as error:
            raise streamed_error(self.provider, error, self._key) from None
        finally:
            if events:
                if self._first is None:
                    self._first = time.monotonic() - self._began
                sink(events)

    def _receipt(self, seconds: float, outcome: Outcome) -> Receipt:
        counted = [reader.usage for reader in self._readers if reader.usage is not None]
        # A partial sum would look like the total.
        whole = bool(counted) and len(counted) == len(self._readers)
        return Receipt(
            bytes_sent=sum(meter.sent for meter in self._meters),
            bytes_received=sum(meter.received for meter in self._meters),
            seconds=seconds,
            outcome=outcome,
            status=self._status,
            attempts=len(self._meters),
            digests=tuple(meter.digest.hexdigest() for meter in self._meters if meter.sent),
            usage=reduce(add, counted) if whole else None,
            first_seconds=self._first,
        )


def remote_info(provider: Provider, model: str) -> ModelInfo:
    """Return the known properties of a remote model, for a lease."""
    return ModelInfo(
        engine="remote",
        device=provider.name,
        architecture=model,
        parameters=0,
        vocab_size=0,
        trained_context=provider.context,
        context=provider.context,
        slots=0,
        kv_capacity=0,
        has_chat_template=True,
        calls_tools=True,
    )


def _only_writes() -> RequestRejected:
    return RequestRejected(
        "Remote models only generate text.",
        hint="Embeddings, reranking and token counts run on this machine.",
        code="wrong_task",
        param="model",
    )
