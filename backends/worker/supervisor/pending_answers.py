"""Requests that a worker answers with one message: embeddings, rankings, tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ...base.errors import BackendError, RequestRejected
from ...base.events import Embedded, Reranked, Tokenized
from ...base.requests import EmbedRequest, RerankRequest, TokenizeRequest
from ..worker_protocol import Cancel, Embed, Rejected, Rerank, Tokenize, ToWorker
from .request_streams import rejection

Answer = TypeVar("Answer", Embedded, Reranked, Tokenized)


class PendingAnswers:
    """The requests of one worker that wait for their answer; used from the event loop only."""

    def __init__(self, send: Callable[[ToWorker], None]) -> None:
        self._send = send
        self._waiting: dict[str, asyncio.Future[Embedded | Reranked | Tokenized]] = {}

    @property
    def busy(self) -> bool:
        """Whether any request waits."""
        return bool(self._waiting)

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Send the request and wait; a cancelled call ends the work. Raises `BackendError`."""
        return await self._ask(request.id, Embed(request), Embedded)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Send the request and wait; a cancelled call ends the work. Raises `BackendError`."""
        return await self._ask(request.id, Rerank(request), Reranked)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Send the request and wait; a cancelled call ends the work. Raises `BackendError`."""
        return await self._ask(request.id, Tokenize(request), Tokenized)

    def settle(self, message: Embedded | Reranked | Tokenized | Rejected) -> bool:
        """Hand the answer to whoever waits for it; whether anybody does."""
        future = self._waiting.pop(message.id, None)
        if future is None:
            return False
        if future.done():  # its caller was cancelled in this very moment
            return True
        if isinstance(message, Rejected):
            future.set_exception(rejection(message))
        else:
            future.set_result(message)
        return True

    def fail_all(self, error: BackendError) -> None:
        """End every request with the error."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

    async def _ask(self, request_id: str, message: ToWorker, kind: type[Answer]) -> Answer:
        if request_id in self._waiting:
            raise RequestRejected(f"A request with the id {request_id!r} is running.", param="id")
        try:
            self._send(message)
        except (ValueError, OverflowError) as error:
            raise RequestRejected(f"The request cannot reach the model: {error}.") from error
        future = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        try:
            answer = await future
        finally:
            if self._waiting.pop(request_id, None) is not None:
                self._send(Cancel(request_id))
        if not isinstance(answer, kind):
            raise BackendError(f"The model answered {type(answer).__name__} to the request.")
        return answer
