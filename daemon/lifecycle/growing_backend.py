"""Has a model loaded with more context if a prompt does not fit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec import structs

from ingle.backends.base.backend import RequestBackend
from ingle.backends.base.errors import ContextExceeded
from ingle.backends.base.events import Embedded, EventSink, Reranked, Tokenized
from ingle.backends.base.model_info import Gauges
from ingle.backends.base.requests import (
    EmbedRequest,
    GenerateRequest,
    RerankRequest,
    TokenizeRequest,
)
from ingle.models.metadata.stored_model import StoredModel

from ..model_process.model_run import ModelRun
from .lease import Lease

_ANSWER_SPACE = 2048
_SHARE_FOR_ANSWER = 4

ChooseContext = Callable[[ModelRun, int, int], Awaitable[int | str]]
"""Returns the context to load a model with for a prompt and the space for its answer, in tokens.

If there can be no larger one it returns what the user can do about it, in a sentence.
"""
Enlarge = Callable[[ModelRun, int], Awaitable[tuple[ModelRun, RequestBackend]]]
"""Releases a run, and acquires one of the same model with at least this context."""


class GrowingBackend:
    """The backend of a lease, whose run is replaced by one with more context if a prompt needs it.

    A prompt that fits, but leaves less than 2,048 tokens (or `max_tokens`, if those are fewer) for
    the answer, has the model replaced, too, where more is possible.
    """

    def __init__(
        self,
        run: ModelRun,
        backend: RequestBackend,
        choose: ChooseContext,
        enlarge: Enlarge,
        *,
        model: StoredModel,
    ) -> None:
        """`backend` sends requests to the acquired `run`, which `release` releases.

        `model` may be that of the run with an adapter.
        """
        assert run.info is not None
        own = model if model.adapter else run.model
        self.lease = Lease(own, self, run.info, run.longest_context)
        self._run: ModelRun | None = run
        self._backend = backend
        self._choose = choose
        self._enlarge = enlarge
        self._calls = 0
        self._idle = asyncio.Event()
        self._growing = asyncio.Lock()
        self._failure: Exception | None = None

    @property
    def gauges(self) -> Gauges:
        """The gauges of the present run."""
        return self._run.gauges if self._run is not None else Gauges()

    def release(self) -> None:
        """Release the present run."""
        if self._run is not None:
            self._run.release()

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """See `RequestBackend.run`; raises also what loading the model raises."""
        space = min(_ANSWER_SPACE, self.lease.context // _SHARE_FOR_ANSWER)
        if request.max_tokens is not None:
            space = min(space, request.max_tokens)
        if request.max_context is not None:
            space = 0  # the client chose the context itself
        adapter = self.lease.model.adapter
        while True:
            async with self._calling() as backend:
                try:
                    asked = structs.replace(request, answer_space=space, adapter=adapter)
                    await backend.run(asked, sink)
                    return
                except ContextExceeded as exceeded:
                    error = exceeded
            hint = await self._grow(backend, error, request.max_context, space)
            if hint is not None and error.prompt_tokens >= error.context:
                error.hint = hint or error.hint
                raise error
            if hint is not None:
                space = 0  # the prompt fits, and the answer has the rest

    async def embed(self, request: EmbedRequest) -> Embedded:
        """See `RequestBackend.embed`."""
        async with self._calling() as backend:
            return await backend.embed(request)

    async def rerank(self, request: RerankRequest) -> Reranked:
        """See `RequestBackend.rerank`."""
        async with self._calling() as backend:
            return await backend.rerank(request)

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """See `RequestBackend.tokenize`."""
        async with self._calling() as backend:
            return await backend.tokenize(request)

    @asynccontextmanager
    async def _calling(self) -> AsyncGenerator[RequestBackend]:
        """Yield the present backend, which is not replaced meanwhile."""
        async with self._growing:
            if self._failure is not None:
                raise self._failure
            backend = self._backend
            self._calls += 1
            self._idle.clear()
        try:
            yield backend
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _grow(
        self, backend: RequestBackend, error: ContextExceeded, bound: int | None, space: int
    ) -> str | None:
        """Have the model loaded with more context; return None if there is more now.

        Otherwise return a hint, which may be empty. `bound` is the context that the request allows.
        """
        if bound is not None and bound <= min(self.lease.info.context, error.prompt_tokens):
            return f"Shorten the prompt, or send a `num_ctx` of more than {error.prompt_tokens}."
        async with self._growing:
            if backend is not self._backend:
                return None  # another prompt of this request had it replaced
            await self._idle.wait()
            run = self._run
            assert run is not None
            context = await self._choose(run, error.prompt_tokens, space)
            if isinstance(context, str):
                return context
            began = time.monotonic()
            self._run = None  # it is released, whatever happens
            try:
                self._run, self._backend = await self._enlarge(run, context)
            except Exception as failure:
                self._failure = failure
                raise
            assert self._run.info is not None
            self.lease.info = self._run.info
            self.lease.longest_context = self._run.longest_context
            self.lease.reload_seconds += time.monotonic() - began
        return None
