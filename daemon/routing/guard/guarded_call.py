"""Sends one guarded request to its own provider, and passes the answer on."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from msgspec import structs

from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.errors import ProviderMisbehaved
from ingle.backends.remote.metered_connection import Meter
from ingle.backends.remote.providers import Provider
from ingle.backends.remote.receipt import Outcome, Receipt

from ..egress.provider_egress import OutboundCall, ProviderEgress
from ..egress.redaction import Redaction
from ..ledger.egress_ledger import BudgetReservation
from .answer_restorer import AnswerRestorer
from .guard_runs import GuardRun
from .guarded_request import Headers

if TYPE_CHECKING:
    from ingle.backends.remote.http_client import HttpResponse

LARGEST_ANSWER = 64 * 2**20
"""Bytes of an answer in one piece."""

_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "accept-encoding",
        "expect",
    }
)
"""Headers of the connection itself; answers are asked for without compression."""

_REDIRECTS = (301, 302, 303, 307, 308)
_NOT_RETURNED = _CONNECTION | {"content-encoding", "alt-svc", "strict-transport-security"}


class GuardedCall:
    """One request that leaves, from the intent in the ledger to the receipt."""

    def __init__(
        self,
        egress: ProviderEgress,
        run: GuardRun,
        provider: Provider,
        clearance: Clearance,
        redaction: Redaction | None,
    ) -> None:
        self._run = run
        self._provider = provider
        self._restorer = AnswerRestorer(redaction, run.received.add)
        self._call = OutboundCall(egress, provider, clearance, None)
        self._meter = Meter()
        self._stack = AsyncExitStack()
        self._answer: HttpResponse | None = None
        self._began = 0.0
        self._first: float | None = None
        self._closed = False

    async def send(
        self, method: str, path: str, headers: Headers, body: bytes
    ) -> tuple[int, Headers]:
        """Send it, and return the answer's status and headers.

        Raises `BackendError`, also for a redirect, which is never followed, and `ProviderError`.
        """
        from ingle.backends.remote.http_client import exchange

        await self._call.begin(BudgetReservation(tokens=len(body), cost=None, currency=""))
        self._began = time.monotonic()
        kept = [(name, value) for name, value in headers if name not in _CONNECTION]
        kept.append(("accept-encoding", "identity"))
        try:
            answer = self._answer = await self._stack.enter_async_context(
                exchange(self._provider, path, kept, body, self._meter, method=method)
            )
            _check(answer)
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            await self.close(Outcome.CANCELLED if cancelled else Outcome.FAILED)
            raise
        returned = [(n, v) for n, v in answer.header_list if n not in _NOT_RETURNED]
        return answer.status, returned

    async def body(self) -> AsyncGenerator[bytes]:
        """Yield the answer with values restored; raises `BackendError`."""
        assert self._answer is not None
        kind = self._answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        outcome = Outcome.FAILED
        try:
            async with aclosing(self._answer.chunks()) as chunks:
                if kind == "text/event-stream":
                    async for chunk in chunks:
                        self._note_first()
                        yield self._restorer.feed(chunk)
                    yield self._restorer.end()
                elif kind == "application/json" or kind.endswith("+json"):
                    yield self._restorer.whole(await _whole(chunks))
                else:
                    async for chunk in chunks:
                        yield chunk
            outcome = Outcome.COMPLETE if self._answer.status < 400 else Outcome.REFUSED
        except (GeneratorExit, asyncio.CancelledError):
            outcome = Outcome.CANCELLED
            raise
        finally:
            await self.close(outcome)

    async def close(self, outcome: Outcome) -> None:
        """Close the connection, and record the outcome of a call that began and is still open."""
        if self._closed or not self._began:
            return
        self._closed = True
        await self._stack.aclose()
        self._run.bytes_out += self._meter.sent
        self._call.settle(
            Receipt(
                bytes_sent=self._meter.sent,
                bytes_received=self._meter.received,
                seconds=time.monotonic() - self._began,
                outcome=outcome,
                status=self._answer.status if self._answer is not None else 0,
                attempts=1,
                digests=(self._meter.digest.hexdigest(),) if self._meter.sent else (),
                usage=self._restorer.usage,
                first_seconds=self._first,
            )
        )

    def _note_first(self) -> None:
        if self._first is None:
            self._first = time.monotonic() - self._began


def guard_clearance(clearance: Clearance, run: GuardRun, path: str, body: bytes) -> Clearance:
    """Return the clearance for exactly this body at this path."""
    digest = hashlib.sha256(path.encode("utf-8", "surrogatepass") + b"\n" + body).hexdigest()
    return structs.replace(clearance, digest=digest, conversation=f"guard {run.name}")


def _check(answer: HttpResponse) -> None:
    if answer.status in _REDIRECTS:
        raise ProviderMisbehaved(
            "The provider answered with a redirect, which is not followed: the program's login and "
            "its text would go to another server."
        )
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", ""):
        raise ProviderMisbehaved("The provider compressed its answer although that was not wanted.")


async def _whole(chunks: AsyncGenerator[bytes]) -> bytes:
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if len(found) > LARGEST_ANSWER:
            raise ProviderMisbehaved("The provider's answer does not end.")
    return bytes(found)
